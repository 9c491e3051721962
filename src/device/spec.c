/* SPDX-License-Identifier: Apache-2.0 */
#include "device/spec.h"

#include <ctype.h>
#include <strings.h>

#include "base/parse.h"
#include "base/suggest.h"
#include "device/simulated.h"

enum {
    ID_MAX = 99999,
    MEM_MIN_BYTES = 1 << 20
};

/* A word that may be followed by ":value". The value's `at` is NULL where there was no colon. */
struct form {
    const char *word;
    enum spec_kind kind;
    int (*parse)(struct str value, struct device_spec *out, struct err *err);
};

static int none_parse(struct str value, struct device_spec *out, struct err *err)
{
    (void)out;
    return value.at ? fail(err, ERR_USAGE, "it takes no value") : 0;
}

/* Without this check, a size whose unit was forgotten would be satisfied by every device. */
static int mem_parse(struct str text, uint64_t *out, struct err *err)
{
    int rc = size_parse(text, out, err);
    return rc == 0 && *out > 0 && *out < MEM_MIN_BYTES
               ? fail(err, ERR_USAGE, "%lu bytes are no memory of a device; give a unit: 20GiB",
                      *out)
               : rc;
}

static int free_parse(struct str value, struct device_spec *out, struct err *err)
{
    return value.at ? mem_parse(value, &out->mem_free_min_bytes, err) : 0;
}

static int count_parse(struct str text, struct device_spec *out, struct err *err)
{
    uint64_t count = 0;
    int rc = u64_parse(text, 1, DEVICES_MAX, &count, err);
    out->count = (uint32_t)count;
    return rc;
}

/*
 * Returns the text up to the separator; *after is the text behind it (`at` NULL if there is no
 * separator).
 */
static struct str split(struct str text, char separator, struct str *after)
{
    const char *at = text.len ? memchr(text.at, separator, text.len) : NULL;
    *after = (struct str){0};
    if (!at)
        return text;
    struct str before = {text.at, (size_t)(at - text.at)};
    *after = (struct str){at + 1, text.len - before.len - 1};
    return before;
}

static int any_parse(struct str value, struct device_spec *out, struct err *err)
{
    struct str size;
    if (!value.at)
        return fail(err, ERR_USAGE, "how many? (such as any:4)");
    int rc = count_parse(split(value, ':', &size), out, err);
    return rc == 0 && size.at ? mem_parse(size, &out->mem_free_min_bytes, err) : rc;
}

static int cpu_parse(struct str value, struct device_spec *out, struct err *err)
{
    return value.at ? count_parse(value, out, err) : 0;
}

static int sim_name_parse(struct str name, struct device_spec *out, struct err *err)
{
    if (name.len == 0 || name.len >= sizeof(out->sim_name))
        return fail(err, ERR_USAGE, "the name must have 1 to %zu characters",
                    sizeof(out->sim_name) - 1);
    for (size_t i = 0; i < name.len; i++)
        if (!isalnum((unsigned char)name.at[i]) && !strchr("-_.", name.at[i]))
            return fail(err, ERR_USAGE, "'%c' in the name", name.at[i]);
    memcpy(out->sim_name, name.at, name.len);
    out->sim_name[name.len] = '\0';
    return 0;
}

/* Parses COUNT[xNAME][:MEMORY][,FAULT]... */
static int sim_parse(struct str value, struct device_spec *out, struct err *err)
{
    struct str faults, size, name;
    if (!value.at)
        return fail(err, ERR_USAGE, "which machine? (such as sim:8xH200:141GiB)");
    struct str shape = split(split(value, ',', &faults), ':', &size);
    int rc = count_parse(split(shape, 'x', &name), out, err);
    if (rc == 0)
        rc = sim_name_parse(name.at ? name : STR("GPU"), out, err);
    out->sim_mem_bytes = 80ull << 30;
    if (rc == 0 && size.at)
        rc = mem_parse(size, &out->sim_mem_bytes, err);
    if (rc == 0 && faults.len >= sizeof(out->sim_faults))
        rc = fail(err, ERR_USAGE, "more than %zu bytes of faults", sizeof(out->sim_faults) - 1);
    if (rc == 0 && faults.at && faults.len == 0)
        rc = fail(err, ERR_USAGE, "a fault is missing after the comma");
    if (rc == 0)
        rc = sim_faults_check(faults, out->count, err);
    if (rc == 0 && faults.len > 0)
        memcpy(out->sim_faults, faults.at, faults.len);
    return rc;
}

static const struct form forms[] = {
    {"free", SPEC_FREE, free_parse}, {"all", SPEC_ALL, none_parse}, {"any", SPEC_ANY, any_parse},
    {"none", SPEC_NONE, none_parse}, {"cpu", SPEC_CPU, cpu_parse},  {"sim", SPEC_SIM, sim_parse},
};

static bool is_numeric(struct str text)
{
    for (size_t i = 0; i < text.len; i++)
        if (!isdigit((unsigned char)text.at[i]) && text.at[i] != '-')
            return false;
    return isdigit((unsigned char)text.at[0]);
}

static bool has_prefix(struct str text, const char *prefix)
{
    size_t len = strlen(prefix);
    return text.len > len && strncasecmp(text.at, prefix, len) == 0;
}

/* Is this a PCI address: "3b:00.0", "0000:3b:00.0", "00000000:3B:00.0"? */
static bool is_pci(struct str text)
{
    size_t n_colons = 0;
    for (size_t i = 0; i < text.len; i++) {
        n_colons += text.at[i] == ':';
        if (!isxdigit((unsigned char)text.at[i]) && text.at[i] != ':' && text.at[i] != '.')
            return false;
    }
    return n_colons == 1 || n_colons == 2;
}

static int unknown_word(struct str text, struct err *err)
{
    const char *words[countof(forms) + 1];
    char word[64];
    for (size_t i = 0; i < countof(forms); i++)
        words[i] = forms[i].word;
    words[countof(forms)] = "phys";
    struct str after, head = split(text, ':', &after);
    snprintf(word, sizeof(word), "%.*s", (int)head.len, head.at);
    const char *near = suggest(word, words, countof(words));
    bool is_form = near && strcmp(near, word) == 0;
    if (is_form && strcmp(word, "phys") != 0)
        return fail(err, ERR_USAGE, "'%s' stands alone, not in a list", word);
    if (near && !is_form)
        return fail(err, ERR_USAGE, "unknown device '%s' (did you mean '%s'?)", word, near);
    return fail(err, ERR_USAGE,
                "unknown device '%s' (expected ids such as 0,2,5-7, a UUID, a PCI address, free, "
                "all, any:N, cpu:N, sim:…, none)",
                word);
}

static int entry_add(struct device_spec *out, struct spec_entry entry, struct err *err)
{
    for (size_t i = 0; i < out->n_entries; i++) {
        const struct spec_entry *other = &out->entries[i];
        if (entry.is_id != other->is_id)
            continue;
        if (entry.is_id ? entry.id == other->id : strcasecmp(entry.text, other->text) == 0)
            return entry.is_id ? fail(err, ERR_USAGE, "device %u is listed twice", entry.id)
                               : fail(err, ERR_USAGE, "device %s is listed twice", entry.text);
    }
    if (out->n_entries == SPEC_ENTRIES_MAX)
        return fail(err, ERR_USAGE, "more than %d devices listed", SPEC_ENTRIES_MAX);
    out->entries[out->n_entries++] = entry;
    return 0;
}

static int range_add(struct device_spec *out, struct str piece, bool is_physical, struct err *err)
{
    struct str high;
    struct str low = split(piece, '-', &high);
    uint64_t first = 0, last = 0;
    int rc = u64_parse(low, 0, ID_MAX, &first, err);
    last = first;
    if (rc == 0 && high.at)
        rc = u64_parse(high, 0, ID_MAX, &last, err);
    if (rc == 0 && last < first)
        rc = fail(err, ERR_USAGE, "range '%.*s' runs backwards", (int)piece.len, piece.at);
    for (uint64_t id = first; rc == 0 && id <= last; id++)
        rc = entry_add(
            out, (struct spec_entry){.is_id = true, .is_physical = is_physical, .id = (uint32_t)id},
            err);
    return rc;
}

static int list_parse(struct str list, bool is_physical, struct device_spec *out, struct err *err)
{
    struct str rest = list, piece;
    out->kind = SPEC_LIST;
    while (str_next(&rest, ',', &piece)) {
        int rc = 0;
        struct spec_entry entry = {0};
        piece = str_trim(piece);
        if (piece.len == 0)
            return fail(err, ERR_USAGE, "an entry of '%.*s' is empty", (int)list.len, list.at);
        if (is_numeric(piece)) {
            rc = range_add(out, piece, is_physical, err);
        } else if (is_physical || !(has_prefix(piece, "GPU-") || has_prefix(piece, "MIG-") ||
                                    has_prefix(piece, "PCI-") || is_pci(piece))) {
            rc = unknown_word(piece, err);
        } else if (piece.len >= sizeof(entry.text)) {
            rc = fail(err, ERR_USAGE, "'%.*s' is too long for a device", (int)piece.len, piece.at);
        } else {
            memcpy(entry.text, piece.at, piece.len);
            rc = entry_add(out, entry, err);
        }
        if (rc)
            return rc;
    }
    return 0;
}

int spec_parse(const char *text, struct device_spec *out, struct err *err)
{
    *out = (struct device_spec){.is_default = text == NULL};
    struct str spec = str_trim(str_of(text ? text : "free")), value;
    if (spec.len == 0)
        return fail(err, ERR_USAGE, "the device list is empty (try free, all, or ids such as 0,2)");
    struct str word = split(spec, ':', &value);
    for (size_t i = 0; i < countof(forms); i++) {
        if (!str_equal(word, str_of(forms[i].word)))
            continue;
        out->kind = forms[i].kind;
        int rc = forms[i].parse(value, out, err);
        return rc ? wrap(err, rc, "devices '%.*s'", (int)spec.len, spec.at) : 0;
    }
    bool is_physical = str_equal(word, STR("phys")) && value.len > 0;
    int rc = list_parse(is_physical ? value : spec, is_physical, out, err);
    return rc ? wrap(err, rc, "devices '%.*s'", (int)spec.len, spec.at) : 0;
}

int spec_check(const char *text, struct err *err)
{
    struct device_spec spec;
    return spec_parse(text, &spec, err);
}

/*
 * Adds a number of bytes in the largest unit that divides it, so that it is parsed back to the same
 * number.
 */
static void add_size(struct buf *out, uint64_t bytes)
{
    static const char *const units[] = {"", "KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;
    while (bytes > 0 && bytes % 1024 == 0 && unit + 1 < countof(units)) {
        bytes /= 1024;
        unit++;
    }
    buf_addf(out, "%lu%s", (unsigned long)bytes, units[unit]);
}

static void format_list(const struct device_spec *spec, struct buf *out)
{
    for (size_t i = 0; i < spec->n_entries; i++) {
        const struct spec_entry *entry = &spec->entries[i];
        size_t run = 1;
        while (entry->is_id && i + run < spec->n_entries && spec->entries[i + run].is_id &&
               spec->entries[i + run].id == entry->id + run)
            run++;
        buf_add_text(out, i > 0 ? "," : entry->is_physical ? "phys:" : "");
        if (!entry->is_id)
            buf_add_text(out, entry->text);
        else
            buf_addf(out, "%u", entry->id);
        if (run > 2) {
            buf_addf(out, "-%zu", entry->id + run - 1);
            i += run - 1;
        }
    }
}

void spec_format(const struct device_spec *spec, struct buf *out)
{
    if (spec->kind == SPEC_LIST) {
        format_list(spec, out);
        return;
    }
    for (size_t i = 0; i < countof(forms); i++)
        if (forms[i].kind == spec->kind)
            buf_add_text(out, forms[i].word);
    if (spec->count > 0)
        buf_addf(out, ":%u", spec->count);
    if (spec->kind == SPEC_SIM) {
        buf_addf(out, "x%s:", spec->sim_name);
        add_size(out, spec->sim_mem_bytes);
        if (spec->sim_faults[0])
            buf_addf(out, ",%s", spec->sim_faults);
    }
    if (spec->mem_free_min_bytes > 0) {
        buf_add_char(out, ':');
        add_size(out, spec->mem_free_min_bytes);
    }
}
