/* SPDX-License-Identifier: Apache-2.0 */
#include "device_maps/records.h"

#include "base/parse.h"
#include "base/xalloc.h"

static const struct dtype {
    struct str name;
    uint32_t bytes;
} dtypes[] = {
    {{"float64", 7}, 8}, {{"float32", 7}, 4}, {{"float16", 7}, 2}, {{"bfloat16", 8}, 2},
    {{"int64", 5}, 8},   {{"int32", 5}, 4},   {{"int16", 5}, 2},   {{"int8", 4}, 1},
    {{"uint8", 5}, 1},   {{"bool", 4}, 1},
};

/* The lines of a text, and how deep they are indented. */
struct lines {
    struct str *at;
    size_t *depths, n;
};

static struct lines lines_split(struct str text)
{
    struct lines lines = {0};
    size_t cap = 0;
    for (struct str line; str_next(&text, '\n', &line);) {
        if (lines.n == cap) {
            cap = MAX(2 * cap, (size_t)256);
            lines.at = xrealloc(lines.at, cap * sizeof(*lines.at));
            lines.depths = xrealloc(lines.depths, cap * sizeof(*lines.depths));
        }
        size_t depth = 0;
        while (depth < line.len && line.at[depth] == ' ')
            depth++;
        lines.at[lines.n] = (struct str){line.at + depth, line.len - depth};
        lines.depths[lines.n++] = depth;
    }
    return lines;
}

static struct str word_next(struct str *rest)
{
    struct str word = {0};
    if (rest->len > 0)
        str_next(rest, ' ', &word);
    return word;
}

static bool word_is_in(struct str words, struct str word, uint32_t *number)
{
    *number = 0;
    for (struct str next; (next = word_next(&words)).len > 0; ++*number)
        if (str_equal(next, word))
            return true;
    *number = 0;
    return false;
}

static uint64_t number_read(struct str text)
{
    uint64_t number = 0;
    ASSERT(u64_parse(text, 0, UINT64_MAX, &number, NULL) == 0);
    return number;
}

/* "12", or "3..12"; false: it is no number. */
static bool range_read(struct str text, uint64_t *first, uint64_t *last)
{
    size_t digits = 0;
    while (digits < text.len && text.at[digits] >= '0' && text.at[digits] <= '9')
        digits++;
    if (digits == 0 || (digits < text.len && text.at[digits] != '.'))
        return false;
    *first = *last = number_read((struct str){text.at, digits});
    if (digits < text.len)
        *last = number_read((struct str){text.at + digits + 2, text.len - digits - 2});
    return true;
}

static struct str name_join(struct record *r, struct str path, struct str name)
{
    struct buf joined = BUF_INIT;
    if (path.len > 0)
        buf_addf(&joined, "%.*s.", (int)path.len, path.at);
    buf_add_str(&joined, name);
    size_t len = joined.len;
    r->names = xrealloc(r->names, (r->n_names + 1) * sizeof(*r->names));
    r->names[r->n_names] = buf_steal(&joined);
    return (struct str){r->names[r->n_names++], len};
}

static uint64_t shape_count(struct str shape)
{
    uint64_t count = 1;
    ASSERT(shape.len >= 2);
    struct str rest = {shape.at + 1, shape.len - 2};
    for (struct str size; rest.len > 0 && str_next(&rest, ',', &size);)
        count *= number_read(size);
    return count;
}

static void tensor_add(struct record *r, uint32_t module, struct str line)
{
    r->tensors = xrealloc(r->tensors, (r->n_tensors + 1) * sizeof(*r->tensors));
    r->dtypes = xrealloc(r->dtypes, (r->n_tensors + 1) * sizeof(*r->dtypes));
    r->are_fleeting = xrealloc(r->are_fleeting, (r->n_tensors + 1) * sizeof(*r->are_fleeting));
    struct partition_tensor *tensor = &r->tensors[r->n_tensors];
    *tensor = (struct partition_tensor){.module = module, .is_buffer = line.at[0] == 'b'};
    word_next(&line);
    tensor->name = name_join(r, r->modules[module].name, word_next(&line));
    r->dtypes[r->n_tensors] = line;
    struct str dtype = word_next(&line), shape = word_next(&line);
    r->dtypes[r->n_tensors].len = (size_t)(shape.at + shape.len - dtype.at);
    size_t i = 0;
    while (i < countof(dtypes) && !str_equal(dtype, dtypes[i].name))
        i++;
    ASSERT(i < countof(dtypes));
    tensor->bytes = shape_count(shape) * dtypes[i].bytes;
    tensor->is_bool = str_equal(dtype, STR("bool"));
    r->are_fleeting[r->n_tensors] = false;
    for (struct str word; (word = word_next(&line)).len > 0;) {
        if (word.at[0] == '=')
            tensor->tied = (uint32_t)number_read((struct str){word.at + 1, word.len - 1});
        else
            r->are_fleeting[r->n_tensors] = str_equal(word, STR("fleeting"));
    }
    r->n_tensors++;
}

static uint32_t module_add(struct record *r, uint32_t parent, struct str name, struct str class)
{
    r->modules = xrealloc(r->modules, (r->n_modules + 1) * sizeof(*r->modules));
    r->classes = xrealloc(r->classes, (r->n_modules + 1) * sizeof(*r->classes));
    struct partition_module module = {.parent = parent};
    module.is_whole = word_is_in(r->whole, class, &module.class_number);
    module.name = r->n_modules > 0 ? name_join(r, r->modules[parent].name, name) : STR("");
    r->classes[r->n_modules] = class;
    r->modules[r->n_modules] = module;
    return (uint32_t)r->n_modules++;
}

/* What is in a module: lines of this depth. Returns the next line. */
static size_t module_read(struct record *r, const struct lines *lines, size_t line, size_t depth,
                          uint32_t module)
{
    while (line < lines->n && lines->depths[line] == depth && lines->at[line].len > 2 &&
           lines->at[line].at[1] == ' ') {
        struct str rest = lines->at[line++];
        if (rest.at[0] != 'm') {
            tensor_add(r, module, rest);
            continue;
        }
        word_next(&rest);
        struct str name = word_next(&rest), class = word_next(&rest);
        uint64_t number = 0, last = 0;
        size_t end = line;
        if (!range_read(name, &number, &last)) {
            end = module_read(r, lines, line, depth + 1, module_add(r, module, name, class));
        } else {
            for (; number <= last; number++) {
                char text[24];
                struct str numbered = {
                    text, (size_t)snprintf(text, sizeof(text), "%llu", (unsigned long long)number)};
                end =
                    module_read(r, lines, line, depth + 1, module_add(r, module, numbered, class));
            }
        }
        line = end;
    }
    return line;
}

static void limits_read(struct record_case *c, struct str limits)
{
    if (str_equal(limits, STR("-")))
        return;
    for (struct str limit; limits.len > 0 && str_next(&limits, ',', &limit);) {
        struct partition_device device = {0};
        if (str_starts_with(limit, STR("cpu="))) {
            device.kind = PARTITION_CPU;
            limit = (struct str){limit.at + 4, limit.len - 4};
        }
        device.mem_bytes = number_read(limit);
        c->devices = xrealloc(c->devices, (c->n_devices + 1ul) * sizeof(*c->devices));
        c->devices[c->n_devices++] = device;
    }
}

static void case_read(struct record *r, struct str line)
{
    static const struct str methods[] = {
        [PARTITION_BALANCED] = {"auto", 4},
        [PARTITION_BALANCED_LOW_0] = {"balanced_low_0", 14},
        [PARTITION_SEQUENTIAL] = {"sequential", 10},
    };
    struct record_case c = {.line = line};
    word_next(&line);
    struct str method = word_next(&line);
    while (!str_equal(method, methods[c.method]))
        c.method++;
    limits_read(&c, word_next(&line));
    for (;;) {
        c.keys = line;
        struct str flag = word_next(&line);
        c.fallback |= str_equal(flag, STR("fallback"));
        c.pieces |= str_equal(flag, STR("pieces"));
        c.free |= str_equal(flag, STR("free"));
        if (flag.len == 0 || memchr(flag.at, '=', flag.len))
            break;
    }
    c.line.len -= c.keys.len;
    r->cases = xrealloc(r->cases, (r->n_cases + 1) * sizeof(*r->cases));
    r->cases[r->n_cases++] = c;
}

/* Returns the next line. */
static size_t record_read(struct record *r, const struct lines *lines, size_t line)
{
    struct str rest = lines->at[line++];
    ASSERT(str_equal(word_next(&rest), STR("model")));
    r->name = word_next(&rest);
    r->class = word_next(&rest);
    rest = lines->at[line];
    if (str_equal(word_next(&rest), STR("config"))) {
        r->config = rest;
        rest = lines->at[++line];
        word_next(&rest);
    }
    r->whole = rest;
    module_add(r, 0, STR(""), r->class);
    line = module_read(r, lines, line + 1, 0, 0);
    for (; line < lines->n && str_starts_with(lines->at[line], STR("map ")); line++)
        case_read(r, lines->at[line]);
    return line;
}

struct record *records_read(struct str text, size_t *n)
{
    struct lines lines = lines_split(text);
    struct record *records = NULL;
    *n = 0;
    for (size_t line = 0; line < lines.n && lines.at[line].len > 0; ++*n) {
        records = xrealloc(records, (*n + 1) * sizeof(*records));
        records[*n] = (struct record){0};
        line = record_read(&records[*n], &lines, line);
    }
    free(lines.at);
    free(lines.depths);
    return records;
}

void records_free(struct record *records, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < records[i].n_names; k++)
            free(records[i].names[k]);
        free(records[i].names);
        for (size_t c = 0; c < records[i].n_cases; c++)
            free(records[i].cases[c].devices);
        free(records[i].modules);
        free(records[i].classes);
        free(records[i].tensors);
        free(records[i].dtypes);
        free(records[i].are_fleeting);
        free(records[i].cases);
    }
    free(records);
}

/* "model.layers.3..12=0": before is "model.layers.", after is empty. */
static void key_open(struct key_reader *reader, struct str word)
{
    const char *equals = memrchr(word.at, '=', word.len);
    ASSERT(equals);
    size_t len = (size_t)(equals - word.at);
    reader->device = (struct str){equals + 1, word.len - len - 1};
    reader->before = (struct str){word.at, len};
    reader->after = (struct str){0};
    reader->has_number = false;
    const char *dots = memmem(word.at, len, "..", 2);
    if (!dots)
        return;
    size_t first = (size_t)(dots - word.at), last = first + 2;
    while (first > 0 && word.at[first - 1] >= '0' && word.at[first - 1] <= '9')
        first--;
    while (last < len && word.at[last] >= '0' && word.at[last] <= '9')
        last++;
    reader->has_number =
        range_read((struct str){word.at + first, last - first}, &reader->number, &reader->last);
    reader->before.len = first;
    reader->after = (struct str){word.at + last, len - last};
}

bool key_next(struct key_reader *reader, struct buf *key, struct str *device)
{
    if (!reader->is_open) {
        struct str word = word_next(&reader->rest);
        if (word.len == 0)
            return false;
        key_open(reader, word);
    }
    buf_reset(key);
    buf_add_str(key, reader->before);
    if (reader->has_number)
        buf_addf(key, "%llu", (unsigned long long)reader->number);
    buf_add_str(key, reader->after);
    *device = reader->device;
    reader->is_open = reader->has_number && reader->number++ < reader->last;
    return true;
}

uint32_t record_device(const struct record_case *c, struct str device)
{
    uint64_t number = 0;
    if (u64_parse(device, 0, UINT32_MAX, &number, NULL) == 0)
        return (uint32_t)number;
    bool has_cpu = c->n_devices > 0 && c->devices[c->n_devices - 1].kind == PARTITION_CPU;
    return has_cpu && str_equal(device, STR("cpu")) ? c->n_devices - 1 : c->n_devices;
}
