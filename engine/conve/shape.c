/* SPDX-License-Identifier: Apache-2.0 */
#include "conve/shape.h"

const char *conve_layout_name(enum conve_layout layout)
{
    switch (layout) {
    case LAYOUT_AUTO:
        return NULL;
    case LAYOUT_WIDTH:
        return "width";
    case LAYOUT_HEIGHT:
        return "height";
    }
    return NULL;
}

int conve_shape_check(const struct conve_shape *shape, struct err *err)
{
    const struct {
        const char *what;
        size_t size;
    } sizes[] = {
        {"entities", shape->n_entities},
        {"relations", shape->n_relations},
        {"height", shape->height},
        {"width", shape->width},
        {"filters", shape->n_filters},
        {"kernel height", shape->kernel_height},
        {"kernel width", shape->kernel_width},
    };
    for (size_t i = 0; i < countof(sizes); i++)
        if (sizes[i].size == 0 || sizes[i].size > UINT32_MAX)
            return fail(err, ERR_DATA, "%s: expected 1 to %u, found %zu", sizes[i].what, UINT32_MAX,
                        sizes[i].size);
    if (shape->layout == LAYOUT_AUTO)
        return fail(err, ERR_DATA, "the layout is not said");
    size_t image, product;
    if (__builtin_mul_overflow(2 * shape->height, shape->width, &image) || image > UINT32_MAX ||
        __builtin_mul_overflow(image, MAX(shape->n_entities, shape->n_relations), &product) ||
        __builtin_mul_overflow(image * shape->n_filters, image, &product) || product > PTRDIFF_MAX)
        return fail(err, ERR_DATA, "embeddings of %zu x %zu are too large", shape->height,
                    shape->width);
    if (shape->kernel_height > conve_image_height(shape) ||
        shape->kernel_width > conve_image_width(shape))
        return fail(err, ERR_DATA, "a kernel of %zu x %zu is larger than the image, %zu x %zu",
                    shape->kernel_height, shape->kernel_width, conve_image_height(shape),
                    conve_image_width(shape));
    return 0;
}
