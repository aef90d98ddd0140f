/* Resizes images with exactly the same bytes as Pillow's bilinear and bicubic filters. `native.py` is the only caller: it owns all memory and
 * has checked every length. Nothing here allocates or keeps state, and nothing can fail.
 *
 * Each axis is resized separately: a new pixel is the weighted sum of neighbours along the axis, and is rounded. Weights are integers, so sums
 * do not depend on the order of addition. Between the two passes, only the rows that are needed next are kept, so that they stay in the
 * cache. */

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#define WITH_AVX2 __attribute__((target("avx2")))
#endif

/* Weights are fixed-point numbers with BITS fractional bits. The lowest LOW_BITS bits are multiplied separately (see `split`). */
enum { BITS = 22, HALF = 1 << (BITS - 1), LOW_BITS = 8 };
/* The number of colour rows processed at a time, the number of grey rows processed at a time, the maximum number of bytes read for a pixel, the
 * number of bytes written for a pixel, and the alignment of the buffers. */
enum { ROWS = 4, GREY_ROWS = 16, VECTOR = 32, STORED = 4, ALIGNED = 64 };

/* One axis of the image: its size before and after, and the weights between them. */
typedef struct {
    int64_t before, after;
    int64_t room;     /* number of weights reserved for each output position, an even number */
    int64_t *first;   /* first input position of each output position */
    int64_t *count;   /* number of input positions of each output position */
    int32_t *weights; /* weights of the input positions, padded with zeros up to `room` */
} side;

/* The whole resampling: sizes, weights and buffers. */
typedef struct {
    const uint8_t *image;
    side across, down;
    int64_t channels, at_once, is_wide;
    int64_t ends_at;         /* the first row that `end` holds */
    uint8_t *end;            /* a copy of the image's last rows, with readable bytes after it */
    int64_t held, stride;    /* number of rows of the new width that are kept; bytes from one row to the next */
    uint8_t *rows;           /* row n is at index n modulo `held` */
    int64_t line_stride;
    uint8_t *lines;          /* `at_once` rows of the old width */
    const uint8_t **sources; /* the input rows of one output row */
    double *shares;          /* weights of one output position before they are rounded */
    uint8_t *old, *new;      /* grey rows of the old and the new width, interleaved four by four */
} plan;

/* --- weights ------------------------------------------------------------------------------------------------------ */

static double bilinear(double distance)
{
    return distance < 1 ? 1 - distance : 0;
}

/* Keys' cubic with a = -0.5. */
static double bicubic(double distance)
{
    if (distance < 1)
        return (1.5 * distance - 2.5) * distance * distance + 1;
    return distance < 2 ? (((distance - 5) * distance + 8) * distance - 4) * -0.5 : 0;
}

/* Returns the number of input positions per output position, but at least 1. The filter is widened by this factor. */
static double width_of(const side *of)
{
    double width = (double)of->before / (double)of->after;
    return width < 1 ? 1 : width;
}

static int64_t room_of(const side *of, int64_t is_cubic)
{
    double reach = width_of(of) * (is_cubic ? 2 : 1);
    int64_t whole = (int64_t)reach;
    return 2 * (whole + (reach > (double)whole)) + 2;
}

static void weigh(const side *of, int64_t is_cubic, double *shares)
{
    double scale = (double)of->before / (double)of->after, width = width_of(of), reach = width * (is_cubic ? 2 : 1), narrower = 1 / width;
    memset(of->weights, 0, (size_t)(of->after * of->room) * sizeof(int32_t));
    for (int64_t place = 0; place < of->after; place++) {
        int32_t *weights = of->weights + place * of->room;
        if (of->before == of->after) {
            of->first[place] = place;
            of->count[place] = 1;
            weights[0] = 1 << BITS;
            continue;
        }
        double middle = ((double)place + 0.5) * scale, whole = 0;
        int64_t first = (int64_t)(middle - reach + 0.5), end = (int64_t)(middle + reach + 0.5);
        first = first < 0 ? 0 : first;
        end = end > of->before ? of->before : end;
        for (int64_t at = first; at < end; at++) {
            double distance = ((double)at - middle + 0.5) * narrower;
            distance = distance < 0 ? -distance : distance;
            shares[at - first] = is_cubic ? bicubic(distance) : bilinear(distance);
            whole += shares[at - first];
        }
        for (int64_t at = 0; at < end - first; at++) {
            double share = (whole != 0 ? shares[at] / whole : shares[at]) * (1 << BITS);
            weights[at] = (int32_t)(share < 0 ? share - 0.5 : share + 0.5);
        }
        of->first[place] = first;
        of->count[place] = end - first;
    }
}

/* --- one by one --------------------------------------------------------------------------------------------------- */

static inline uint8_t rounded(int32_t sum)
{
    sum >>= BITS;
    return (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

static inline void row_across(const uint8_t *row, const side *to, int64_t channels, uint8_t *made)
{
    for (int64_t place = 0; place < to->after; place++) {
        const uint8_t *from = row + to->first[place] * channels;
        const int32_t *weights = to->weights + place * to->room;
        for (int64_t channel = 0; channel < channels; channel++) {
            int32_t sum = HALF;
            for (int64_t at = 0; at < to->count[place]; at++)
                sum += from[at * channels + channel] * weights[at];
            *made++ = rounded(sum);
        }
    }
}

static void across_plainly(const plan *with, const uint8_t *const *rows, uint8_t *const *made)
{
    for (int64_t row = 0; row < with->at_once; row++)
        if (with->channels == 3) /* constants let the compiler unroll the loops */
            row_across(rows[row], &with->across, 3, made[row]);
        else
            row_across(rows[row], &with->across, 1, made[row]);
}

static void down_plainly(const uint8_t *const *rows, const int32_t *weights, int64_t count, int64_t size, uint8_t *out)
{
    int32_t sums[8 * VECTOR];
    for (int64_t from = 0, some; from < size; from += some) {
        some = size - from < 8 * VECTOR ? size - from : 8 * VECTOR;
        for (int64_t at = 0; at < some; at++)
            sums[at] = HALF;
        for (int64_t row = 0; row < count; row++)
            for (int64_t at = 0; at < some; at++)
                sums[at] += rows[row][from + at] * weights[row];
        for (int64_t at = 0; at < some; at++)
            out[from + at] = rounded(sums[at]);
    }
}

/* --- with AVX2 ---------------------------------------------------------------------------------------------------- */

#ifdef WITH_AVX2

/* The fast instruction multiplies pairs of 16-bit numbers and adds the two products. So each weight is split into its lowest bits and the rest,
 * which fits into 16 bits because all weights are less than 2. Two adjacent weights become a pair of rests and a pair of lowest bits. */
static void split(const side *of)
{
    int32_t *weights = of->weights;
    for (int64_t left = of->after * of->room; left > 0; left -= 2, weights += 2) {
        uint32_t first = (uint32_t)weights[0], second = (uint32_t)weights[1], low = (1 << LOW_BITS) - 1;
        weights[0] = (int32_t)((first >> LOW_BITS & 0xFFFF) | second >> LOW_BITS << 16);
        weights[1] = (int32_t)((first & low) | (second & low) << 16);
    }
}

/* Combines the two kinds of sums into 32 bits; the total doesn't overflow. */
WITH_AVX2 static inline __m256i whole(__m256i rest, __m256i low)
{
    __m256i sum = _mm256_add_epi32(_mm256_slli_epi32(rest, LOW_BITS), low);
    return _mm256_srai_epi32(_mm256_add_epi32(sum, _mm256_set1_epi32(HALF)), BITS);
}

WITH_AVX2 static inline __m256i two_rows(const uint8_t *first, const uint8_t *second)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)first)), _mm_loadu_si128((const __m128i *)second), 1);
}

/* Adds two adjacent pixels, unpacked to pairs by channel, times their weights. */
WITH_AVX2 static inline void add_pair(__m256i pixels, const int32_t *weights, __m256i *rest, __m256i *low)
{
    *rest = _mm256_add_epi32(*rest, _mm256_madd_epi16(pixels, _mm256_set1_epi32(weights[0])));
    *low = _mm256_add_epi32(*low, _mm256_madd_epi16(pixels, _mm256_set1_epi32(weights[1])));
}

/* Resizes ROWS rows of three or four channels. Writes up to STORED bytes beyond the last pixel, and reads beyond the end of the rows. */
WITH_AVX2 static inline void some_across(const uint8_t *const *rows, const side *to, int64_t channels, uint8_t *const *made)
{
    const __m128i of_three = _mm_setr_epi8(0, -128, 3, -128, 1, -128, 4, -128, 2, -128, 5, -128, -128, -128, -128, -128);
    const __m128i of_four = _mm_setr_epi8(0, -128, 4, -128, 1, -128, 5, -128, 2, -128, 6, -128, 3, -128, 7, -128);
    const __m256i first_two = _mm256_broadcastsi128_si256(channels == 3 ? of_three : of_four);
    const __m256i next_two = _mm256_add_epi8(first_two, _mm256_set1_epi8((char)(2 * channels)));
    const uint8_t *const row_0 = rows[0], *const row_1 = rows[1], *const row_2 = rows[2], *const row_3 = rows[3];
    for (int64_t place = 0; place < to->after; place++) {
        const int32_t *weights = to->weights + place * to->room;
        int64_t from = to->first[place] * channels, left = to->count[place];
        __m256i rest = _mm256_setzero_si256(), low = rest, other_rest = rest, other_low = rest;
        for (; left > 2; left -= 4, weights += 4, from += 4 * channels) {
            __m256i pixels = two_rows(row_0 + from, row_1 + from), others = two_rows(row_2 + from, row_3 + from);
            add_pair(_mm256_shuffle_epi8(pixels, first_two), weights, &rest, &low);
            add_pair(_mm256_shuffle_epi8(others, first_two), weights, &other_rest, &other_low);
            add_pair(_mm256_shuffle_epi8(pixels, next_two), weights + 2, &rest, &low);
            add_pair(_mm256_shuffle_epi8(others, next_two), weights + 2, &other_rest, &other_low);
        }
        if (left > 0) {
            add_pair(_mm256_shuffle_epi8(two_rows(row_0 + from, row_1 + from), first_two), weights, &rest, &low);
            add_pair(_mm256_shuffle_epi8(two_rows(row_2 + from, row_3 + from), first_two), weights, &other_rest, &other_low);
        }
        /* In each half, the first four bytes are a pixel of one row, and the next four bytes are a pixel of the row two rows below it. */
        __m256i sums = _mm256_packs_epi32(whole(rest, low), whole(other_rest, other_low));
        __m256i bytes = _mm256_packus_epi16(sums, sums);
        int64_t even = _mm_cvtsi128_si64(_mm256_castsi256_si128(bytes)), odd = _mm_cvtsi128_si64(_mm256_extracti128_si256(bytes, 1));
        int64_t even_next = even >> 32, odd_next = odd >> 32;
        memcpy(made[0] + place * channels, &even, STORED);
        memcpy(made[1] + place * channels, &odd, STORED);
        memcpy(made[2] + place * channels, &even_next, STORED);
        memcpy(made[3] + place * channels, &odd_next, STORED);
    }
}

/* Interleaves four rows of one channel into one row of four channels. `take_apart` does the reverse. Because the buffers don't overlap, the
 * compiler can vectorise both functions. */
WITH_AVX2 static void put_together(const uint8_t *const *rows, int64_t size, uint8_t *restrict to)
{
    const uint8_t *restrict one = rows[0], *restrict two = rows[1], *restrict three = rows[2], *restrict four = rows[3];
    for (int64_t place = 0; place < size; place++, to += 4) {
        to[0] = one[place];
        to[1] = two[place];
        to[2] = three[place];
        to[3] = four[place];
    }
}

WITH_AVX2 static void take_apart(const uint8_t *restrict from, int64_t size, uint8_t *const *rows)
{
    uint8_t *restrict one = rows[0], *restrict two = rows[1], *restrict three = rows[2], *restrict four = rows[3];
    for (int64_t place = 0; place < size; place++, from += 4) {
        one[place] = from[0];
        two[place] = from[1];
        three[place] = from[2];
        four[place] = from[3];
    }
}

WITH_AVX2 static void grey_across(const plan *with, const uint8_t *const *rows, uint8_t *const *made)
{
    const uint8_t *old[ROWS];
    uint8_t *new[ROWS];
    int64_t before = with->across.before, after = with->across.after;
    for (int64_t row = 0; row < ROWS; row++) {
        old[row] = with->old + row * 4 * before;
        new[row] = with->new + row * 4 * after;
        put_together(rows + 4 * row, before, with->old + row * 4 * before);
    }
    some_across(old, &with->across, 4, new);
    for (int64_t row = 0; row < ROWS; row++)
        take_apart(new[row], after, made + 4 * row);
}

WITH_AVX2 static void across_widely(const plan *with, const uint8_t *const *rows, uint8_t *const *made)
{
    if (with->channels == 3)
        some_across(rows, &with->across, 3, made);
    else
        grey_across(with, rows, made);
}

/* Multiplies the bytes of two adjacent rows by the weights of these rows, and adds the products to `sums`. */
WITH_AVX2 static inline void add_rows(__m256i pairs, __m256i rest, __m256i low, __m256i *sums)
{
    const __m256i zero = _mm256_setzero_si256();
    __m256i first = _mm256_unpacklo_epi8(pairs, zero), second = _mm256_unpackhi_epi8(pairs, zero);
    sums[0] = _mm256_add_epi32(sums[0], _mm256_madd_epi16(first, rest));
    sums[1] = _mm256_add_epi32(sums[1], _mm256_madd_epi16(first, low));
    sums[2] = _mm256_add_epi32(sums[2], _mm256_madd_epi16(second, rest));
    sums[3] = _mm256_add_epi32(sums[3], _mm256_madd_epi16(second, low));
}

/* Computes the weighted sum of an even number of rows. Whole vectors are read from each row. */
WITH_AVX2 static void down_widely(const uint8_t *const *rows, const int32_t *weights, int64_t count, int64_t size, uint8_t *out)
{
    for (int64_t from = 0; from < size; from += VECTOR) {
        __m256i sums[8];
        for (int64_t number = 0; number < 8; number++)
            sums[number] = _mm256_setzero_si256();
        for (int64_t row = 0; row < count; row += 2) {
            __m256i one = _mm256_loadu_si256((const __m256i *)(rows[row] + from)), other = _mm256_loadu_si256((const __m256i *)(rows[row + 1] + from));
            __m256i rest = _mm256_set1_epi32(weights[row]), low = _mm256_set1_epi32(weights[row + 1]);
            add_rows(_mm256_unpacklo_epi8(one, other), rest, low, sums);
            add_rows(_mm256_unpackhi_epi8(one, other), rest, low, sums + 4);
        }
        __m256i first = _mm256_packs_epi32(whole(sums[0], sums[1]), whole(sums[2], sums[3]));
        __m256i second = _mm256_packs_epi32(whole(sums[4], sums[5]), whole(sums[6], sums[7]));
        __m256i bytes = _mm256_packus_epi16(first, second);
        if (size - from >= VECTOR)
            _mm256_storeu_si256((__m256i *)(out + from), bytes);
        else
            memcpy(out + from, &bytes, (size_t)(size - from));
    }
}

#endif

/* --- images ------------------------------------------------------------------------------------------------------- */

/* Reserves `bytes` bytes of the memory `room`, of which `*taken` bytes are in use. If `room` is NULL, only counts the bytes. */
static void *take(uint8_t *room, int64_t *taken, int64_t bytes)
{
    void *from = room ? room + *taken : NULL;
    *taken += (bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
    return from;
}

static int64_t larger(int64_t one, int64_t other)
{
    return one > other ? one : other;
}

static int64_t smaller(int64_t one, int64_t other)
{
    return one < other ? one : other;
}

static side side_in(uint8_t *room, int64_t *taken, int64_t before, int64_t after, int64_t is_cubic)
{
    side made = {.before = before, .after = after};
    made.room = room_of(&made, is_cubic);
    made.first = take(room, taken, after * (int64_t)sizeof(int64_t));
    made.count = take(room, taken, after * (int64_t)sizeof(int64_t));
    made.weights = take(room, taken, after * made.room * (int64_t)sizeof(int32_t));
    return made;
}

/* `sizes` contains the old height and width, the new height and width, and the number of channels. */
static plan plan_in(uint8_t *room, int64_t *taken, const int64_t *sizes, int64_t is_cubic)
{
    int64_t size = sizes[1] * sizes[4];
    plan made = {.channels = sizes[4], .at_once = sizes[4] == 1 ? GREY_ROWS : ROWS};
    made.down = side_in(room, taken, sizes[0], sizes[2], is_cubic);
    made.across = side_in(room, taken, sizes[1], sizes[3], is_cubic);
    made.ends_at = larger(0, sizes[0] - (VECTOR + size - 1) / size);
    made.end = take(room, taken, (sizes[0] - made.ends_at) * size + VECTOR);
    made.held = made.down.room + made.at_once;
    made.stride = (sizes[3] * sizes[4] + STORED + VECTOR - 1) / VECTOR * VECTOR;
    made.rows = take(room, taken, made.held * made.stride);
    made.line_stride = size + VECTOR;
    made.lines = take(room, taken, made.at_once * made.line_stride);
    made.sources = take(room, taken, made.down.room * (int64_t)sizeof(uint8_t *));
    made.shares = take(room, taken, larger(made.down.room, made.across.room) * (int64_t)sizeof(double));
    if (made.channels == 1) {
        made.old = take(room, taken, ROWS * 4 * sizes[1] + VECTOR);
        made.new = take(room, taken, ROWS * 4 * sizes[3]);
    }
    return made;
}

/* Returns a row of the image that can be read beyond its end. The last rows come from their copy, which has readable bytes after it. */
static const uint8_t *row_of(const plan *with, int64_t row)
{
    int64_t size = with->across.before * with->channels;
    return row < with->ends_at ? with->image + row * size : with->end + (row - with->ends_at) * size;
}

static void across(const plan *with, const uint8_t *const *rows, uint8_t *const *made)
{
#ifdef WITH_AVX2
    if (with->is_wide) {
        across_widely(with, rows, made);
        return;
    }
#endif
    across_plainly(with, rows, made);
}

/* Makes one output row from the source rows, which have `size` bytes. */
static void down(const plan *with, int64_t place, int64_t size, uint8_t *out)
{
    const int32_t *weights = with->down.weights + place * with->down.room;
    int64_t count = with->down.count[place];
#ifdef WITH_AVX2
    if (with->is_wide) {
        with->sources[count] = with->sources[count - 1]; /* if the number of rows is odd, add a row with a weight of zero */
        down_widely(with->sources, weights, count, size, out);
        return;
    }
#endif
    down_plainly(with->sources, weights, count, size, out);
}

static void across_first(const plan *with, uint8_t *out)
{
    const uint8_t *rows[GREY_ROWS];
    uint8_t *made[GREY_ROWS];
    int64_t size = with->across.after * with->channels, next = 0;
    for (int64_t place = 0; place < with->down.after; place++, out += size) {
        int64_t first = with->down.first[place], end = first + with->down.count[place];
        for (; next < end; next += with->at_once) {
            for (int64_t number = 0; number < with->at_once; number++) {
                rows[number] = row_of(with, smaller(next + number, with->down.before - 1));
                made[number] = with->rows + (next + number) % with->held * with->stride;
            }
            across(with, rows, made);
        }
        for (int64_t row = first; row < end; row++)
            with->sources[row - first] = with->rows + row % with->held * with->stride;
        down(with, place, size, out);
    }
}

static void down_first(const plan *with, uint8_t *out)
{
    const uint8_t *rows[GREY_ROWS];
    uint8_t *made[GREY_ROWS];
    int64_t size = with->across.after * with->channels, last = with->down.after - 1;
    for (int64_t place = 0; place <= last; place += with->at_once) {
        for (int64_t number = 0; number < with->at_once; number++) {
            uint8_t *line = with->lines + number * with->line_stride;
            int64_t first = with->down.first[smaller(place + number, last)], count = with->down.count[smaller(place + number, last)];
            for (int64_t row = 0; row < count; row++)
                with->sources[row] = row_of(with, first + row);
            down(with, smaller(place + number, last), with->across.before * with->channels, line);
            rows[number] = line;
            made[number] = with->rows + number * with->stride;
        }
        across(with, rows, made);
        for (int64_t number = 0; number < with->at_once && place + number <= last; number++, out += size)
            memcpy(out, made[number], (size_t)size);
    }
}

/* Returns the number of bytes that `resample` needs as `room` for these sizes. */
int64_t resampling_room(const int64_t *sizes, int64_t is_cubic)
{
    int64_t taken = 0;
    plan_in(NULL, &taken, sizes, is_cubic);
    return taken;
}

/* Resizes an image of one or three channels, and writes the result to `out`. If `is_wide` is set, uses AVX2. */
void resample(const uint8_t *image, const int64_t *sizes, int64_t is_cubic, int64_t is_wide, uint8_t *room, uint8_t *out)
{
    int64_t taken = 0;
    plan with = plan_in(room, &taken, sizes, is_cubic);
    with.image = image;
    with.is_wide = is_wide;
    memcpy(with.end, image + with.ends_at * sizes[1] * sizes[4], (size_t)((sizes[0] - with.ends_at) * sizes[1] * sizes[4]));
    weigh(&with.down, is_cubic, with.shares);
    weigh(&with.across, is_cubic, with.shares);
#ifdef WITH_AVX2
    if (is_wide) {
        split(&with.down);
        split(&with.across);
    }
#endif
    /* The order of the two passes affects the rounding, and therefore the result. Like Pillow, first resize the columns if they lose more than
     * twice as many pixels as the rows. */
    int64_t shorter = with.down.before - with.down.after, narrower = with.across.before - with.across.after;
    if (shorter > 0 && shorter > 2 * narrower)
        down_first(&with, out);
    else
        across_first(&with, out);
}
