/* Loops over records and values that neither numpy nor Arrow can do in one call. `native.py` documents each function, has an equivalent in
 * Python, and is the only caller: it owns all memory and has checked every length. Nothing here allocates or keeps state, and only file I/O can
 * fail.
 *
 * Built by `build_native.py` and called through ctypes, which releases the GIL. Requires a little-endian machine with a CRC-32C instruction. */

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <immintrin.h>
#define WITH_AVX2 __attribute__((target("avx2,f16c"))) /* every processor with AVX2 has F16C too */
#define WITH_CRC __attribute__((target("sse4.2")))
#define CRC_8(crc, word) ((uint32_t)_mm_crc32_u64((crc), (word)))
#define CRC_4(crc, half) _mm_crc32_u32((crc), (half))
#define CRC_1(crc, byte) _mm_crc32_u8((crc), (byte))
#elif defined(__aarch64__)
#include <arm_acle.h>
#ifdef __linux__
#include <sys/auxv.h>
#endif
#define WITH_CRC __attribute__((target("+crc")))
#define CRC_8(crc, word) __crc32cd((crc), (word))
#define CRC_4(crc, half) __crc32cw((crc), (half))
#define CRC_1(crc, byte) __crc32cb((crc), (byte))
#else
#error "no CRC-32C instruction is known for this processor"
#endif

enum { HEADER = 12, FOOTER = 4, BLOCK = 16, PARTS = 256 };

/* A piece contains one part of every row: the values of a column, or the same bytes for all rows. */
typedef struct {
    const uint8_t *data;
    const int64_t *offsets; /* start of each value, and the end of the last value; if NULL, every row takes all of `data` */
    const int64_t *places;  /* index of each row's value; if NULL, row n takes value n */
    int64_t size;           /* the size of `data` in bytes */
} piece;

/* --- CRC-32C ------------------------------------------------------------------------------------------------------ */

/* The instruction has a latency of three cycles and a throughput of one per cycle, so the CRCs of three adjacent parts are computed in
 * parallel. To combine the CRCs, the first CRC is changed as if a part of zero bytes followed. This change is linear, so it is looked up in a
 * table for each of the four bytes of the CRC. Large parts are for data outside the cache. They are prefetched by software, because hardware
 * prefetching does not cover three streams. */
enum { PART = 256, LARGE_PART = 1024, AHEAD = 6144, LINE = 64 };
static uint32_t behind_part[4][256], behind_large_part[4][256];

WITH_CRC static uint32_t crc_words(uint32_t crc, const uint8_t *data, int64_t size)
{
    uint64_t word;
    for (; size >= 8; size -= 8, data += 8) {
        memcpy(&word, data, 8);
        crc = CRC_8(crc, word);
    }
    return crc;
}

static inline uint32_t behind(uint32_t table[4][256], uint32_t crc)
{
    return table[0][crc & 0xFF] ^ table[1][crc >> 8 & 0xFF] ^ table[2][crc >> 16 & 0xFF] ^ table[3][crc >> 24];
}

WITH_CRC static inline uint32_t crc_parts(uint32_t crc, const uint8_t *data, int64_t part, int64_t ahead, uint32_t table[4][256])
{
    uint32_t second = 0, third = 0;
    uint64_t words[3];
    for (const uint8_t *end = data + part; data < end;) {
        if (ahead)
            for (int number = 0; number < 3; number++)
                __builtin_prefetch(data + ahead + number * part);
        for (const uint8_t *line = data + LINE; data < line; data += 8) {
            memcpy(&words[0], data, 8);
            memcpy(&words[1], data + part, 8);
            memcpy(&words[2], data + 2 * part, 8);
            crc = CRC_8(crc, words[0]);
            second = CRC_8(second, words[1]);
            third = CRC_8(third, words[2]);
        }
    }
    return behind(table, behind(table, crc) ^ second) ^ third;
}

/* Continues the inverted CRC `crc` over `data`. */
WITH_CRC static uint32_t crc_more(uint32_t crc, const uint8_t *data, int64_t size)
{
    uint32_t half;
    for (; size >= 3 * LARGE_PART; size -= 3 * LARGE_PART, data += 3 * LARGE_PART)
        crc = crc_parts(crc, data, LARGE_PART, AHEAD, behind_large_part);
    for (; size >= 3 * PART; size -= 3 * PART, data += 3 * PART)
        crc = crc_parts(crc, data, PART, 0, behind_part);
    crc = crc_words(crc, data, size);
    data += size & ~(int64_t)7;
    if (size & 4) {
        memcpy(&half, data, 4);
        crc = CRC_4(crc, half);
        data += 4;
    }
    for (size &= 3; size > 0; size--)
        crc = CRC_1(crc, *data++);
    return crc;
}

WITH_CRC static uint32_t crc32c(const uint8_t *data, int64_t size)
{
    return ~crc_more(0xFFFFFFFF, data, size);
}

static uint32_t masked(uint32_t crc)
{
    return (crc >> 15 | crc << 17) + 0xA282EAD8;
}

static int64_t has_crc(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("sse4.2") != 0;
#elif defined(__linux__)
    return (getauxval(AT_HWCAP) >> 7 & 1) != 0; /* HWCAP_CRC32 */
#else
    return 1;
#endif
}

/* Must be called once before any other function. Returns whether this processor has the instruction. If not, no other function may be called. */
int64_t begin(void)
{
    static const uint8_t zeros[LARGE_PART];
    if (!has_crc())
        return 0;
    for (uint32_t place = 0; place < 4; place++)
        for (uint32_t byte = 0; byte < 256; byte++) {
            behind_part[place][byte] = crc_words(byte << 8 * place, zeros, PART);
            behind_large_part[place][byte] = crc_words(byte << 8 * place, zeros, LARGE_PART);
        }
    return 1;
}

/* Computes the masked CRC of data[starts[row] : ends[row]] for each row. */
WITH_CRC void masked_crcs(const uint8_t *data, const int64_t *starts, const int64_t *ends, int64_t rows, uint32_t *crcs)
{
    for (int64_t row = 0; row < rows; row++)
        crcs[row] = masked(crc32c(data + starts[row], ends[row] - starts[row]));
}

/* --- varints ------------------------------------------------------------------------------------------------------ */

/* Writes a varint and returns its end. Spreads groups of 7 bits over bytes in three steps, and sets the highest bit of all bytes except the
 * last. There are no branches for values of up to 8 bytes, because mispredicted branches would cost more than everything else. Writes at
 * least 8 bytes, so `to` needs spare room. */
static inline uint8_t *varint(uint8_t *to, uint64_t value)
{
    if (value >> 56) {
        for (; value > 0x7F; value >>= 7)
            *to++ = (uint8_t)(value | 0x80);
        *to = (uint8_t)value;
        return to + 1;
    }
    int64_t length = (70 - __builtin_clzll(value | 1)) / 7;
    value = (value & 0x00FFFFFFF0000000) << 4 | (value & 0x000000000FFFFFFF);
    value = (value & 0x0FFFC0000FFFC000) << 2 | (value & 0x00003FFF00003FFF);
    value = (value & 0x3F803F803F803F80) << 1 | (value & 0x007F007F007F007F);
    value |= 0x8080808080808080 & ((1ull << 8 * (length - 1)) - 1);
    memcpy(to, &value, 8);
    return to + length;
}

/* Writes the varints of all rows. Row n has values[ends[n] : ends[n + 1]] and takes lengths[n] bytes of `out`, which has room for 10 bytes per
 * value. Returns the number of bytes written. */
int64_t varints(const uint64_t *values, const int64_t *ends, int64_t rows, int64_t *lengths, uint8_t *out)
{
    uint8_t *to = out;
    for (int64_t row = 0; row < rows; row++) {
        uint8_t *begin = to;
        for (int64_t at = ends[row]; at < ends[row + 1]; at++)
            to = varint(to, values[at]);
        lengths[row] = to - begin;
    }
    return to - out;
}

/* --- decimals ----------------------------------------------------------------------------------------------------- */

static const char pairs[] =
    "0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849"
    "5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";
static const uint64_t powers[] = {
    0, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000, 10000000000, 100000000000, 1000000000000, 10000000000000,
    100000000000000, 1000000000000000, 10000000000000000, 100000000000000000, 1000000000000000000, 10000000000000000000u,
};

/* 1233 / 4096 is about log10(2). */
static inline int64_t digits_of(uint64_t value)
{
    int64_t about = (64 - __builtin_clzll(value | 1)) * 1233 >> 12;
    return about + (value >= powers[about]);
}

static inline uint8_t *decimal(uint8_t *to, uint64_t value)
{
    uint8_t *end = to + digits_of(value), *at = end;
    for (; value >= 100; value /= 100)
        memcpy(at -= 2, pairs + value % 100 * 2, 2);
    if (value >= 10)
        memcpy(at - 2, pairs + value * 2, 2);
    else
        at[-1] = (uint8_t)('0' + value);
    return end;
}

/* Writes `first`, `between`, `second` and a line end for each row. `out` has room for 42 bytes per row. Returns the number of bytes written. */
int64_t number_lines(const uint64_t *first, int64_t between, const uint64_t *second, int64_t rows, uint8_t *out)
{
    uint8_t *to = out;
    for (int64_t row = 0; row < rows; row++) {
        to = decimal(to, first[row]);
        *to++ = (uint8_t)between;
        to = decimal(to, second[row]);
        *to++ = '\n';
    }
    return to - out;
}

/* --- bytes -------------------------------------------------------------------------------------------------------- */

/* Returns whether this processor has AVX2. Callers pass the result as `is_wide`. */
int64_t has_avx2(void)
{
#ifdef WITH_AVX2
    return __builtin_cpu_supports("avx2") != 0;
#else
    return 0;
#endif
}

#ifdef WITH_AVX2
enum { VECTOR = 32 };

/* Like `byte_sums`, but `count` must be a multiple of VECTOR. */
WITH_AVX2 static void add_sums_widely(const uint8_t *bytes, int64_t count, uint64_t *sums)
{
    const __m256i zero = _mm256_setzero_si256();
    uint64_t firsts[4];
    uint32_t seconds[8];
    for (int64_t some; count > 0; count -= some, bytes += some) {
        some = count < 1 << 18 ? count : 1 << 18; /* for up to 2^18 bytes, a lane's sum of squares fits into 32 bits */
        __m256i first = zero, second = zero;
        for (int64_t at = 0; at < some; at += VECTOR) {
            __m256i values = _mm256_loadu_si256((const __m256i *)(bytes + at));
            __m256i low = _mm256_unpacklo_epi8(values, zero), high = _mm256_unpackhi_epi8(values, zero);
            first = _mm256_add_epi64(first, _mm256_sad_epu8(values, zero));
            second = _mm256_add_epi32(second, _mm256_add_epi32(_mm256_madd_epi16(low, low), _mm256_madd_epi16(high, high)));
        }
        memcpy(firsts, &first, VECTOR);
        memcpy(seconds, &second, VECTOR);
        for (int place = 0; place < 4; place++)
            sums[0] += firsts[place];
        for (int place = 0; place < 8; place++)
            sums[1] += seconds[place];
    }
}

/* Computes (byte - middle) * factor for 16 bytes with 32-bit floats, and rounds the results to 16-bit floats. `rest` is the part of the exact
 * middle that a 32-bit float can't hold. */
WITH_AVX2 static inline void on_line(const uint8_t *bytes, __m256 middle, __m256 rest, __m256 factor, uint16_t *out)
{
    for (int64_t at = 0; at < 16; at += 8) {
        __m256 values = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(bytes + at))));
        values = _mm256_mul_ps(_mm256_sub_ps(_mm256_sub_ps(values, middle), rest), factor);
        _mm_storeu_si128((__m128i *)(out + at), _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT));
    }
}

WITH_AVX2 static int64_t look_up_widely(const uint16_t *table, double middle, double factor, const uint8_t *bytes, int64_t count, uint16_t *out)
{
    const __m256 middles = _mm256_set1_ps((float)middle), rests = _mm256_set1_ps((float)(middle - (double)(float)middle));
    const __m256 factors = _mm256_set1_ps((float)factor);
    uint8_t levels[16];
    uint16_t found[16];
    for (int64_t level = 0; level < 256; level += 16) {
        for (int64_t at = 0; at < 16; at++)
            levels[at] = (uint8_t)(level + at);
        on_line(levels, middles, rests, factors, found);
        if (memcmp(found, table + level, sizeof found))
            return 0;
    }
    int64_t at = 0;
    for (; at + 16 <= count; at += 16)
        on_line(bytes + at, middles, rests, factors, out + at);
    for (; at < count; at++)
        out[at] = table[bytes[at]];
    return 1;
}

#endif

/* Sets `sums` to the sum of the bytes and the sum of their squares. */
void byte_sums(const uint8_t *bytes, int64_t count, int64_t is_wide, uint64_t *sums)
{
    sums[0] = sums[1] = 0;
#ifdef WITH_AVX2
    if (is_wide) {
        int64_t whole = count / VECTOR * VECTOR;
        add_sums_widely(bytes, whole, sums);
        bytes += whole;
        count -= whole;
    }
#endif
    (void)is_wide;
    while (count > 0) {
        int64_t some = count < 1 << 15 ? count : 1 << 15; /* the squares of 2^15 bytes add up to less than 2^32 */
        uint32_t first = 0, second = 0;
        for (int64_t at = 0; at < some; at++) {
            first += bytes[at];
            second += (uint32_t)bytes[at] * bytes[at];
        }
        sums[0] += first;
        sums[1] += second;
        bytes += some;
        count -= some;
    }
}

/* Writes at most `room` positions of `byte` in a text. Returns how often the byte occurs, which can be more than `room`. Fast only on
 * processors with AVX2. */
int64_t places_of(const uint8_t *text, int64_t size, int64_t byte, int64_t *places, int64_t room)
{
    int64_t count = 0, at = 0;
#ifdef WITH_AVX2
    enum { HALF = 16, WORD = 64 };
    const __m128i wanted = _mm_set1_epi8((char)byte);
    for (; at + WORD <= size; at += WORD) {
        uint64_t found = 0;
        for (int64_t part = 0; part < WORD; part += HALF) {
            __m128i bytes = _mm_loadu_si128((const __m128i *)(text + at + part));
            found |= (uint64_t)_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, wanted)) << part;
        }
        if (count + WORD > room)
            count += __builtin_popcountll(found);
        else
            for (; found; found &= found - 1)
                places[count++] = at + __builtin_ctzll(found);
    }
#endif
    for (; at < size; at++)
        if (text[at] == byte) {
            if (count < room)
                places[count] = at;
            count++;
        }
    return count;
}

/* Maps each byte through a table of 256 16-bit values. */
void look_up(const uint16_t *table, const uint8_t *bytes, int64_t count, uint16_t *out)
{
    for (int64_t at = 0; at < count; at++)
        out[at] = table[bytes[at]];
}

/* Like `look_up`, but for a table of 16-bit floats in which entry n is about (n - middle) * factor. Computes the entries, which is several times
 * faster. Returns 0 and computes nothing if the processor lacks AVX2, or if the computation doesn't give exactly the table's entries. */
int64_t look_up_line(const uint16_t *table, double middle, double factor, const uint8_t *bytes, int64_t count, int64_t is_wide, uint16_t *out)
{
#ifdef WITH_AVX2
    if (is_wide)
        return look_up_widely(table, middle, factor, bytes, count, out);
#endif
    (void)table, (void)middle, (void)factor, (void)bytes, (void)count, (void)is_wide, (void)out;
    return 0;
}

/* --- columns ------------------------------------------------------------------------------------------------------ */

/* Maps the bits of floats to integers with the same order, by flipping all bits except the sign in negative values. NaN and the infinities are
 * beyond all finite values. */
#define SAME(bits, flip) (bits)
#define FLIPPED(bits, flip) ((bits) ^ (-((bits) < 0) & (flip)))

/* Finds the minimum and the maximum of a column, and samples every `every`th value from `first` on. */
#define BOUNDS(name, type, key, flip)                                                                                                       \
    static inline __attribute__((always_inline)) void name(                                                                                 \
        const type *values, int64_t rows, int64_t first, int64_t every, type *least, type *greatest, type *looked_at)                       \
    {                                                                                                                                       \
        type low = key(values[0], flip), high = low;                                                                                        \
        for (int64_t at = 0; at < rows; at++) {                                                                                             \
            type value = key(values[at], flip);                                                                                             \
            low = value < low ? value : low;                                                                                                \
            high = value > high ? value : high;                                                                                             \
        }                                                                                                                                   \
        *least = key(low, flip);                                                                                                            \
        *greatest = key(high, flip);                                                                                                        \
        for (int64_t at = first; at < rows; at += every)                                                                                    \
            *looked_at++ = values[at];                                                                                                      \
    }

BOUNDS(of_int16, int16_t, SAME, 0)
BOUNDS(of_int32, int32_t, SAME, 0)
BOUNDS(of_int64, int64_t, SAME, 0)
BOUNDS(of_uint16, uint16_t, SAME, 0)
BOUNDS(of_uint32, uint32_t, SAME, 0)
BOUNDS(of_float16, int16_t, FLIPPED, INT16_MAX)
BOUNDS(of_float32, int32_t, FLIPPED, INT32_MAX)
BOUNDS(of_float64, int64_t, FLIPPED, INT64_MAX)

#define EACH(number, type, name)                                                                                                            \
    case number:                                                                                                                            \
        for (int64_t column = 0; column < count; column++)                                                                                  \
            name(columns[column], rows, first, every, (type *)least + column, (type *)greatest + column, (type *)looked_at + column * some); \
        break;

#define ALL_BOUNDS                                                                                                                          \
    const void *const *columns, int64_t count, int64_t rows, int64_t type, int64_t first, int64_t every, int64_t some, void *least,         \
        void *greatest, void *looked_at

static inline __attribute__((always_inline)) void all_bounds(ALL_BOUNDS)
{
    switch (type) {
        EACH(0, int16_t, of_int16)
        EACH(1, int32_t, of_int32)
        EACH(2, int64_t, of_int64)
        EACH(3, uint16_t, of_uint16)
        EACH(4, uint32_t, of_uint32)
        EACH(5, int16_t, of_float16)
        EACH(6, int32_t, of_float32)
        EACH(7, int64_t, of_float64)
    }
}

#ifdef WITH_AVX2
WITH_AVX2 static void all_bounds_widely(ALL_BOUNDS)
{
    all_bounds(columns, count, rows, type, first, every, some, least, greatest, looked_at);
}
#endif

/* Does what `BOUNDS` does for each of several columns of the same type, which have at least one row. Samples `some` values of each column. */
void bounds(ALL_BOUNDS, int64_t is_wide)
{
#ifdef WITH_AVX2
    if (is_wide) {
        all_bounds_widely(columns, count, rows, type, first, every, some, least, greatest, looked_at);
        return;
    }
#endif
    (void)is_wide;
    all_bounds(columns, count, rows, type, first, every, some, least, greatest, looked_at);
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

/* Returns the value that a row takes from a piece, and sets `length` to its length. */
static inline const uint8_t *value_of(const piece *from, int64_t row, int64_t *length)
{
    if (!from->offsets) {
        *length = from->size;
        return from->data;
    }
    int64_t place = from->places ? from->places[row] : row;
    *length = from->offsets[place + 1] - from->offsets[place];
    return from->data + from->offsets[place];
}

/* Copies a value. If the source is readable up to the end of a block, copies a short value in whole blocks, because the branches of an exact
 * copy would be mispredicted. The output must have spare room of one block. */
static inline uint8_t *put(uint8_t *to, const uint8_t *from, int64_t size, const uint8_t *readable)
{
    if (size <= 8 * BLOCK && from + size + BLOCK <= readable)
        for (int64_t at = 0; at < size; at += BLOCK)
            memcpy(to + at, from + at, BLOCK);
    else
        memcpy(to, from, (size_t)size);
    return to + size;
}

/* Computes the offset at which each row begins, and the end of the last row. Each row has `around` bytes of framing. */
void row_ends(const piece *pieces, int64_t count, int64_t rows, int64_t around, int64_t *ends)
{
    int64_t fixed = around, length;
    memset(ends, 0, (size_t)(rows + 1) * sizeof(int64_t));
    for (int64_t number = 0; number < count; number++) {
        const piece *from = pieces + number;
        if (!from->offsets)
            fixed += from->size;
        else
            for (int64_t row = 0; row < rows; row++) {
                value_of(from, row, &length);
                ends[row + 1] += length;
            }
    }
    for (int64_t row = 0; row < rows; row++)
        ends[row + 1] += ends[row] + fixed;
}

/* Writes the header that TFRecord puts before data of this length. */
WITH_CRC static inline void put_header(uint8_t *to, int64_t length)
{
    uint32_t crc = masked(crc32c((const uint8_t *)&length, 8));
    memcpy(to, &length, 8);
    memcpy(to + 8, &crc, 4);
}

/* Concatenates the pieces of each row. If `is_framed` is set, adds TFRecord's header and footer. `out` has BLOCK spare bytes. */
WITH_CRC void join(const piece *pieces, int64_t count, int64_t rows, int64_t is_framed, const int64_t *ends, uint8_t *out)
{
    for (int64_t row = 0; row < rows; row++) {
        uint8_t *begin = out + ends[row] + (is_framed ? HEADER : 0), *to = begin;
        for (int64_t number = 0; number < count; number++) {
            int64_t length;
            const uint8_t *value = value_of(pieces + number, row, &length);
            to = put(to, value, length, pieces[number].data + pieces[number].size);
        }
        if (is_framed) {
            uint32_t crc = masked(crc32c(begin, to - begin));
            put_header(begin - HEADER, to - begin);
            memcpy(to, &crc, FOOTER);
        }
    }
}

/* Writes framed rows, but leaves out the values of the pieces that are marked in `apart`. `ends` contains the ends of the rows' data without
 * framing. `cuts` receives, row by row, the offset in `out` at which each value is left out. `out` has room for everything else, and BLOCK spare
 * bytes. */
WITH_CRC void frame_apart(
    const piece *pieces, int64_t count, int64_t rows, const uint8_t *apart, const int64_t *ends, uint8_t *out, int64_t *cuts)
{
    uint8_t *to = out;
    for (int64_t row = 0; row < rows; row++) {
        uint32_t crc = 0xFFFFFFFF;
        put_header(to, ends[row + 1] - ends[row]);
        to += HEADER;
        for (int64_t number = 0; number < count; number++) {
            int64_t length;
            const uint8_t *value = value_of(pieces + number, row, &length);
            crc = crc_more(crc, value, length);
            if (apart[number])
                *cuts++ = to - out;
            else
                to = put(to, value, length, pieces[number].data + pieces[number].size);
        }
        crc = masked(~crc);
        memcpy(to, &crc, FOOTER);
        to += FOOTER;
    }
}

/* --- images ------------------------------------------------------------------------------------------------------- */

/* Finds the height and width of a JPEG that has well-formed markers and an end marker. Returns 0 for any other data. */
static int64_t jpeg_size(const uint8_t *data, int64_t size, int64_t *height_and_width)
{
    int64_t found = 0, at = 2;
    if (size < 4 || data[0] != 0xFF || data[1] != 0xD8)
        return 0;
    while (at + 9 <= size && data[at] == 0xFF) {
        uint8_t marker = data[at + 1];
        if (marker == 0xDA) {
            for (int64_t end = size - 2; end >= at; end--)
                if (data[end] == 0xFF && data[end + 1] == 0xD9)
                    return found;
            return 0;
        }
        /* Fill bytes, markers without a length and an early end are rare. The caller's Python code handles them. */
        if (marker == 0xFF || marker <= 0x01 || (marker >= 0xD0 && marker <= 0xD9))
            return 0;
        int is_frame = marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
        if (is_frame && !found) {
            height_and_width[0] = (int64_t)data[at + 5] << 8 | data[at + 6];
            height_and_width[1] = (int64_t)data[at + 7] << 8 | data[at + 8];
            found = 1;
        }
        at += 2 + ((int64_t)data[at + 2] << 8 | data[at + 3]);
    }
    return 0;
}

/* Calls `jpeg_size` for data[ends[n] : ends[n + 1]], for each n. If a call fails, both sizes are 0. Returns how many calls succeeded. */
int64_t jpeg_sizes(const uint8_t *data, const int64_t *ends, int64_t count, int64_t *heights_and_widths)
{
    int64_t found = 0;
    memset(heights_and_widths, 0, (size_t)count * 2 * sizeof(int64_t));
    for (int64_t number = 0; number < count; number++)
        found += jpeg_size(data + ends[number], ends[number + 1] - ends[number], heights_and_widths + 2 * number);
    return found;
}

/* --- files -------------------------------------------------------------------------------------------------------- */

/* Reads a file that must have exactly `size` bytes. Returns its modification time in nanoseconds, or INT64_MIN on any error. */
static int64_t read_whole(const char *path, int64_t size, uint8_t *out)
{
    struct stat state;
    int64_t modified = INT64_MIN;
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return modified;
    if (!fstat(descriptor, &state) && S_ISREG(state.st_mode) && state.st_size == size) {
        int64_t done = 0;
        while (done < size) {
            ssize_t some = pread(descriptor, out + done, (size_t)(size - done), done);
            if (some > 0)
                done += some;
            else if (some == 0 || errno != EINTR)
                break;
        }
        if (done == size)
            modified = (int64_t)state.st_mtim.tv_sec * 1000000000 + state.st_mtim.tv_nsec;
    }
    close(descriptor);
    return modified;
}

/* Reads complete files in order. The paths are concatenated, each with a terminating 0. For each file, returns the result of `read_whole` and
 * the number of nanoseconds that reading took. */
void read_files(const char *paths, const int64_t *sizes, int64_t count, uint8_t *out, int64_t *modified, int64_t *nanoseconds)
{
    struct timespec before, after;
    clock_gettime(CLOCK_MONOTONIC, &after);
    for (int64_t number = 0; number < count; number++) {
        before = after;
        modified[number] = read_whole(paths, sizes[number], out);
        clock_gettime(CLOCK_MONOTONIC, &after);
        nanoseconds[number] = (int64_t)(after.tv_sec - before.tv_sec) * 1000000000 + after.tv_nsec - before.tv_nsec;
        paths += strlen(paths) + 1;
        out += sizes[number];
    }
}

/* OpenSSL's EVP_DigestUpdate. Returns whether it succeeded. */
typedef int update(void *digest, const void *data, size_t size);

/* Digests the pieces in order. Returns whether it succeeded. */
int64_t digest_pieces(update *add, void *digest, const uint8_t *const *pieces, const int64_t *sizes, int64_t count)
{
    for (int64_t number = 0; number < count; number++)
        if (!add(digest, pieces[number], (size_t)sizes[number]))
            return 0;
    return 1;
}

/* Writes the parts in order. Returns 0 or errno. */
static int64_t write_parts(int descriptor, struct iovec *parts, int count)
{
    while (count > 0) {
        ssize_t written = writev(descriptor, parts, count);
        if (written < 0 && errno != EINTR)
            return errno;
        for (; count > 0 && written >= (ssize_t)parts->iov_len; parts++, count--)
            written -= (ssize_t)parts->iov_len;
        if (count > 0 && written > 0) {
            parts->iov_base = (uint8_t *)parts->iov_base + written;
            parts->iov_len -= (size_t)written;
        }
    }
    return 0;
}

/* Writes the pieces in order, many with each system call. Returns 0 or errno. After an error, some pieces may have been written. */
int64_t write_pieces(int64_t descriptor, const uint8_t *const *pieces, const int64_t *sizes, int64_t count)
{
    struct iovec parts[PARTS];
    int64_t wrong = 0;
    for (int64_t number = 0, some; number < count && !wrong; number += some) {
        some = count - number < PARTS ? count - number : PARTS;
        for (int64_t part = 0; part < some; part++)
            parts[part] = (struct iovec){(void *)(uintptr_t)pieces[number + part], (size_t)sizes[number + part]};
        wrong = write_parts((int)descriptor, parts, (int)some);
    }
    return wrong;
}
