/* SPDX-License-Identifier: Apache-2.0
 *
 * A worker with a model that stays loaded: Tesseract's LSTM network reads words that the worker has
 * drawn itself, slanted, blurred and speckled as the item's seed says.
 *
 *     in   {"lemma":"paper clip","pos":"n"}
 *     out  {"lemma":"paper clip","read":"paper clip","correct":true}, metrics correct and seen
 *
 * The same seed gives the same picture and the same answer, whatever the worker, the device or the
 * attempt. Try it by hand: ./lemmas.sh 5 | ocr_worker
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cairo.h>
#include <muster/worker.h>
#include <omp.h>
#include <tesseract/capi.h>

enum {
    HEIGHT = 48,
    MARGIN = 14,
    WIDTH_MAX = 640,
    FONT_SIZE = 26,
    LEMMA_BYTES = 64,
    READ_BYTES = 256
};

struct picture {
    int width, height;
    unsigned char gray[WIDTH_MAX * HEIGHT]; /* row-major, 0 black, 255 white */
};

/* splitmix64 (Steele, Lea, Flood, OOPSLA 2014): the item's own luck. */
static uint64_t luck(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static double luck_between(uint64_t *state, double low, double high)
{
    return low + (high - low) * ((double)(luck(state) >> 11) * 0x1p-53);
}

/* Black on white, in one of the DejaVu faces, turned by up to 2 degrees. */
static void draw(struct picture *picture, const char *text, uint64_t *state)
{
    static const char *const faces[] = {"DejaVu Sans", "DejaVu Sans Mono", "DejaVu Serif"};
    static const cairo_rectangle_int_t whole = {.width = WIDTH_MAX, .height = HEIGHT};
    cairo_surface_t *surface =
        cairo_image_surface_create(CAIRO_FORMAT_A8, whole.width, whole.height);
    cairo_t *cairo = cairo_create(surface);
    cairo_text_extents_t extents;
    const char *face = faces[luck(state) % 3];
    bool is_bold = luck(state) % 2 == 1;
    cairo_select_font_face(cairo, face, CAIRO_FONT_SLANT_NORMAL,
                           is_bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(cairo, FONT_SIZE);
    cairo_text_extents(cairo, text, &extents);
    double slant = luck_between(state, -0.035, 0.035);
    picture->width = (int)fmin(extents.x_advance + 2 * MARGIN, WIDTH_MAX);
    picture->height = HEIGHT;
    cairo_translate(cairo, picture->width / 2.0, HEIGHT / 2.0);
    cairo_rotate(cairo, slant * fmin(1, 200.0 / picture->width));
    cairo_move_to(cairo, -extents.x_advance / 2, FONT_SIZE * 0.35);
    cairo_show_text(cairo, text);
    cairo_surface_flush(surface);
    const unsigned char *alpha = cairo_image_surface_get_data(surface);
    int stride = cairo_image_surface_get_stride(surface);
    for (int y = 0; y < picture->height; y++)
        for (int x = 0; x < picture->width; x++)
            picture->gray[y * picture->width + x] = (unsigned char)(255 - alpha[y * stride + x]);
    cairo_destroy(cairo);
    cairo_surface_destroy(surface);
}

/* A box of three pixels along one axis, `step` apart; the borders stay. */
static void blur(struct picture *picture, int step)
{
    int n = picture->width * picture->height;
    unsigned char before = picture->gray[0];
    for (int i = step; i + step < n; i++) {
        unsigned char here = picture->gray[i];
        unsigned char left = step == 1 ? before : picture->gray[i - step];
        picture->gray[i] = (unsigned char)((left + here + picture->gray[i + step]) / 3);
        before = here;
    }
}

static void speckle(struct picture *picture, uint64_t *state)
{
    int n = picture->width * picture->height, strength = 20 + (int)(luck(state) % 60);
    for (int i = 0; i < n; i++) {
        int gray = picture->gray[i] + (int)(luck(state) % (uint64_t)(2 * strength)) - strength;
        picture->gray[i] = (unsigned char)(gray < 0 ? 0 : gray > 255 ? 255 : gray);
    }
}

static void render(struct picture *picture, const char *text, uint64_t seed)
{
    uint64_t state = seed;
    draw(picture, text, &state);
    for (uint64_t n = luck(&state) % 3; n > 0; n--) {
        blur(picture, 1);
        blur(picture, picture->width);
    }
    speckle(picture, &state);
}

static void trim(char *text)
{
    size_t len = strlen(text);
    while (len > 0 && strchr(" \n\f", text[len - 1]))
        text[--len] = '\0';
}

static int answer(struct muster_worker *worker, const struct muster_item *item, const char *lemma,
                  const char *read)
{
    char lemma_json[6 * LEMMA_BYTES], read_json[6 * READ_BYTES],
        result[8 * (LEMMA_BYTES + READ_BYTES)];
    bool is_correct = strcmp(lemma, read) == 0;
    muster_json_quote((struct muster_text){lemma, strlen(lemma)}, lemma_json, sizeof(lemma_json));
    muster_json_quote((struct muster_text){read, strlen(read)}, read_json, sizeof(read_json));
    int len = snprintf(result, sizeof(result), "{\"lemma\":%s,\"read\":%s,\"correct\":%s}",
                       lemma_json, read_json, is_correct ? "true" : "false");
    const struct muster_metric metrics[] = {{"correct", is_correct}, {"seen", 1}};
    return muster_item_done_metrics(worker, item, (struct muster_text){result, (size_t)len},
                                    metrics, 2);
}

static int read_item(struct muster_worker *worker, TessBaseAPI *tesseract,
                     const struct muster_item *item)
{
    static struct picture picture;
    struct muster_text value = item->data;
    char lemma[LEMMA_BYTES], read[READ_BYTES];
    muster_json_member(item->data, "lemma", &value);
    if (muster_json_decode(value, lemma, sizeof(lemma)) >= sizeof(lemma))
        return muster_item_fail(worker, item, "expected a short text or {\"lemma\":\"...\"}",
                                false);
    render(&picture, lemma, item->seed);
    TessBaseAPISetImage(tesseract, picture.gray, picture.width, picture.height, 1, picture.width);
    char *text = TessBaseAPIGetUTF8Text(tesseract);
    if (!text)
        return muster_item_fail(worker, item, "tesseract gave no text", true);
    snprintf(read, sizeof(read), "%s", text);
    trim(read);
    TessDeleteText(text);
    /* What it has learnt from one picture must not change how it reads the next. */
    TessBaseAPIClearAdaptiveClassifier(tesseract);
    return answer(worker, item, lemma, read);
}

int main(void)
{
    struct muster_worker *worker = muster_worker_open(NULL);
    TessBaseAPI *tesseract = TessBaseAPICreate();
    struct muster_item item;
    /*
     * One thread. Tesseract asks for four by name, whatever OMP_NUM_THREADS says; on pictures this
     * small they mostly wait for each other: 38 ms an item on one core against 10.
     */
    omp_set_max_active_levels(0);
    if (TessBaseAPIInit2(tesseract, NULL, "eng", OEM_LSTM_ONLY) != 0) {
        fprintf(stderr,
                "ocr_worker: no model 'eng': install tesseract-ocr-eng, or set TESSDATA_PREFIX\n");
        return 69;
    }
    TessBaseAPISetPageSegMode(tesseract, PSM_SINGLE_LINE);
    muster_worker_loaded(worker);
    int rc;
    while ((rc = muster_worker_next(worker, &item)) > 0)
        read_item(worker, tesseract, &item);
    if (rc < 0)
        fprintf(stderr, "ocr_worker: %s\n", muster_worker_error(worker));
    TessBaseAPIDelete(tesseract);
    return muster_worker_close(worker) == 0 ? 0 : 1;
}
