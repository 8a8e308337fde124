#include "picture.h"

#include <png.h>

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GLYPH_WIDTH = 3, GLYPH_HEIGHT = 5, SCALE = 2 };

int picture_make(int width, int height, struct picture *p)
{
    size_t n = (size_t)width * (size_t)height;
    *p = (struct picture){width, height, malloc(n * sizeof *p->pixels)};
    if (p->pixels)
        memset(p->pixels, 255, n * sizeof *p->pixels);
    return p->pixels != NULL;
}

void picture_fini(struct picture *p)
{
    free(p->pixels);
    p->pixels = NULL;
}

void picture_fill(struct picture *p, int x, int y, int width, int height, struct colour colour)
{
    for (int j = y < 0 ? 0 : y; j < y + height && j < p->height; j++)
        for (int i = x < 0 ? 0 : x; i < x + width && i < p->width; i++)
            p->pixels[(size_t)j * (size_t)p->width + (size_t)i] = colour;
}

/* Five rows of three dots, the top row first, as octal digits. */
static unsigned glyph(char c)
{
    static const unsigned letters[] = {025755, 065656, 034443, 065556, 074647, 074644, 034553, 055755, 072227,
                                       011152, 055655, 044447, 057755, 065555, 025552, 065644, 025563, 065655,
                                       034216, 072222, 055557, 055522, 055775, 055255, 055222, 071247};
    static const unsigned digits[] = {075557, 026227, 061247, 061216, 055711, 074616, 034757, 071222, 075757, 075716};
    if (isalpha((unsigned char)c))
        return letters[toupper((unsigned char)c) - 'A'];
    if (isdigit((unsigned char)c))
        return digits[c - '0'];
    return c == '-' ? 000700 : c == '.' ? 000002 : c == '/' ? 011244 : c == ':' ? 002020 : 0;
}

int picture_text(struct picture *p, int x, int y, const char *text)
{
    int begin = x;
    for (; *text; text++, x += (GLYPH_WIDTH + 1) * SCALE) {
        unsigned dots = glyph(*text);
        for (int i = 0; i < GLYPH_WIDTH * GLYPH_HEIGHT; i++)
            if (dots >> (GLYPH_WIDTH * GLYPH_HEIGHT - 1 - i) & 1)
                picture_fill(p, x + i % GLYPH_WIDTH * SCALE, y + i / GLYPH_WIDTH * SCALE, SCALE, SCALE,
                             (struct colour){0, 0, 0});
    }
    return x - begin;
}

static uint8_t level(double value)
{
    return (uint8_t)lround(255 * fmin(fmax(value, 0), 1));
}

struct colour picture_diverging(double value)
{
    double v = fmin(fmax(value, -1), 1), strength = fabs(v);
    if (v >= 0)
        return (struct colour){level(1 - 0.3 * strength), level(1 - 0.95 * strength), level(1 - 0.9 * strength)};
    return (struct colour){level(1 - 0.95 * strength), level(1 - 0.75 * strength), level(1 - 0.3 * strength)};
}

struct colour picture_distinct(int i)
{
    double hue = fmod(i * 0.61803398875, 1) * 6, light = i % 2 ? 0.65 : 0.8;
    double channel[3];
    for (int c = 0; c < 3; c++) {
        double d = fmod(hue + 2.0 * (3 - c), 6);
        channel[c] = light * (0.45 + 0.55 * fmin(fmax(fabs(d - 3) - 1, 0), 1));
    }
    return (struct colour){level(channel[0]), level(channel[1]), level(channel[2])};
}

int picture_write(const struct picture *p, const char *path)
{
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)p->width,
                       .height = (png_uint_32)p->height,
                       .format = PNG_FORMAT_RGB};
    FILE *file = fopen(path, "wb");
    if (!file)
        return 0;
    errno = 0;
    int ok = png_image_write_to_stdio(&image, file, 0, p->pixels, 0, NULL) && fflush(file) == 0;
    ok = fclose(file) == 0 && ok;
    if (!ok && !errno)
        errno = EIO;
    return ok;
}
