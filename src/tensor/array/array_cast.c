/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/array/array_cast.h"

enum {
    CODE_POINT_BYTES = 4,  /* of kind U */
    SWAPPED_BYTES_MAX = 8, /* a wider float has padding whose place depends on the machine */
    PUT_BYTES = 1 << 20
};

/*
 * The bytes of one ordered unit in elements of this kind; 0: bytes of this kind have no order, or
 * the order is not known.
 */
static size_t unit_of(char kind, size_t element_bytes)
{
    size_t unit = 0;
    if (kind == 'U')
        unit = CODE_POINT_BYTES;
    else if (kind == 'c')
        unit = element_bytes / 2;
    else if (kind && strchr("iufmM", kind))
        unit = element_bytes;
    return unit <= SWAPPED_BYTES_MAX ? unit : 0;
}

bool array_cast_find(const struct array *from, const struct array *to, struct array_cast *out)
{
    struct array_type a = array_type_of(from), b = array_type_of(to);
    *out = (struct array_cast){(size_t)from->element_bits / 8, (size_t)to->element_bits / 8, 0};
    if (array_types_equal(from, to))
        return true;
    if (from->npy_version == 0 || a.plain.len == 0 || b.plain.len == 0)
        return false;
    char kind = a.plain.at[0];
    bool is_text = (kind == 'U' || kind == 'S') && b.plain.at[0] == kind;
    bool is_wider = is_text && out->from_bytes < out->to_bytes;
    if (!is_wider && !str_equal(a.plain, b.plain))
        return false;
    if (a.order == b.order)
        return is_wider; /* else types that are spelt alike differ in their encoding */
    out->unit = unit_of(kind, out->from_bytes);
    return out->unit > 0;
}

static void element_cast(const struct array_cast *cast, const char *from, struct buf *out)
{
    buf_reserve(out, cast->to_bytes);
    char *at = out->at + out->len;
    memset(at + cast->from_bytes, 0, cast->to_bytes - cast->from_bytes);
    if (cast->unit == 0)
        memcpy(at, from, cast->from_bytes);
    for (size_t i = 0; cast->unit > 0 && i < cast->from_bytes; i++)
        at[i] = from[i - i % cast->unit + (cast->unit - 1 - i % cast->unit)];
    buf_extend(out, cast->to_bytes);
}

static int made_put(struct array_caster *c, size_t bytes_min, struct err *err)
{
    if (c->made.len < bytes_min)
        return 0;
    int rc = c->to->put(c->to->context, buf_str(&c->made), err);
    buf_reset(&c->made);
    return rc;
}

int array_cast_put(void *context, struct str bytes, struct err *err)
{
    struct array_caster *c = context;
    size_t width = c->cast.from_bytes;
    int rc = 0;
    if (c->begun.len > 0) {
        size_t more = MIN(width - c->begun.len, bytes.len);
        buf_add(&c->begun, bytes.at, more);
        bytes = (struct str){bytes.at + more, bytes.len - more};
        if (c->begun.len < width)
            return 0;
        element_cast(&c->cast, c->begun.at, &c->made);
        buf_reset(&c->begun);
    }
    while (rc == 0 && bytes.len >= width) {
        element_cast(&c->cast, bytes.at, &c->made);
        bytes = (struct str){bytes.at + width, bytes.len - width};
        rc = made_put(c, PUT_BYTES, err);
    }
    buf_add_str(&c->begun, bytes);
    return rc ? rc : made_put(c, 1, err);
}

void array_caster_release(struct array_caster *caster)
{
    buf_release(&caster->begun);
    buf_release(&caster->made);
}
