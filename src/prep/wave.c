#include "prep/wave.h"

#include <inttypes.h>
#include <string.h>

#include "base/bytes.h"
#include "base/library.h"

#define PCM        1
#define IEEE       3
#define EXTENSIBLE 0xfffe

static leat_status check_info(const struct leat_wave_info *info, const char *what, struct leat_error *err)
{
    if (!info->rate || !info->channels)
        return leat_fail(err, LEAT_CORRUPT, "%s of %" PRIu32 " channels at %" PRIu32 " Hz", what, info->channels,
                         info->rate);
    if (info->channels > LEAT_WAVE_CHANNELS_MAX)
        return leat_fail(err, LEAT_LIMIT, "%s of %" PRIu32 " channels: %d are the limit", what, info->channels,
                         LEAT_WAVE_CHANNELS_MAX);
    return LEAT_OK;
}

static leat_status probe_format(struct leat_reader *r, uint32_t length, struct leat_wave_info *info,
                                struct leat_error *err)
{
    const uint8_t *body = leat_read_bytes(r, length);
    struct leat_reader f = leat_reader(body, body ? length : 0);
    uint16_t kind = leat_read_u16(&f);
    info->channels = leat_read_u16(&f);
    info->rate = leat_read_u32(&f);
    leat_read_bytes(&f, 6);
    info->bits = leat_read_u16(&f);
    if (kind == EXTENSIBLE) {
        leat_read_bytes(&f, 8);
        kind = leat_read_u16(&f);
    }
    if (f.bad)
        return leat_fail(err, LEAT_CORRUPT, "WAV whose format makes no sense");
    info->real = kind == IEEE;
    bool known = kind == PCM    ? info->bits == 8 || info->bits == 16 || info->bits == 24 || info->bits == 32
                 : kind == IEEE ? info->bits == 32 || info->bits == 64
                                : false;
    if (!known)
        return leat_fail(err, LEAT_UNSUPPORTED,
                         "WAV of format %u with %" PRIu32 " bits: PCM of 8 to 32 and floats are read", kind,
                         info->bits);
    return check_info(info, "WAV", err);
}

/* Whether what is left is a list of chunks, to the last byte, and so no sound. */
static bool is_chunks(struct leat_reader r)
{
    while (leat_reader_left(&r) >= 8) {
        const uint8_t *name = leat_read_bytes(&r, 4);
        uint32_t length = leat_read_u32(&r);
        for (int i = 0; i < 4; i++) {
            if (name[i] < ' ' || name[i] > '~')
                return false;
        }
        if (length == leat_reader_left(&r)) /* an odd one at the end may lack its padding */
            return true;
        if (!leat_read_bytes(&r, (size_t)length + (length & 1)))
            return false;
    }
    return leat_reader_left(&r) == 0;
}

static leat_status probe_wav(const void *data, size_t size, struct leat_wave_info *info, struct leat_error *err)
{
    struct leat_reader r = leat_reader(data, size);
    leat_read_bytes(&r, 12);
    while (leat_reader_left(&r) >= 8) {
        const uint8_t *name = leat_read_bytes(&r, 4);
        uint32_t length = leat_read_u32(&r);
        if (memcmp(name, "fmt ", 4) == 0) {
            leat_status rc = probe_format(&r, length, info, err);
            if (rc != LEAT_OK)
                return rc;
            if (length & 1)
                leat_read_u8(&r);
        } else if (memcmp(name, "data", 4) == 0 && info->channels) {
            size_t left = leat_reader_left(&r);
            /* Recorders that write to a pipe, or were killed, leave 0 or too much: then all is sound that is there. */
            bool unknown = length == 0 && !is_chunks(r);
            size_t bytes = length < left && !unknown ? length : left;
            info->data = r.at;
            info->frames = bytes / ((size_t)info->channels * (info->bits / 8));
            return LEAT_OK;
        } else if (!leat_read_bytes(&r, (size_t)length + (length & 1))) {
            break;
        }
    }
    return leat_fail(err, LEAT_CORRUPT, "WAV without %s", info->channels ? "samples" : "a format");
}

static float pcm_at(const uint8_t *p, uint32_t bits)
{
    switch (bits) {
    case 8:
        return (float)((int)p[0] - 128) / 128.0f;
    case 16:
        return (float)(int16_t)(p[0] | p[1] << 8) / 32768.0f;
    case 24:
        return (float)((int32_t)((uint32_t)p[0] << 8 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 24) >> 8) / 8388608.0f;
    default:
        return (float)((double)(int32_t)leat_get_u32(p) / 2147483648.0);
    }
}

static float real_at(const uint8_t *p, uint32_t bits)
{
    float single;
    double wide;
    uint32_t low = leat_get_u32(p);
    memcpy(&single, &low, sizeof single);
    if (bits == 32)
        return single;
    uint64_t all = leat_get_u64(p);
    memcpy(&wide, &all, sizeof wide);
    return (float)wide;
}

static void read_wav(const uint8_t *data, const struct leat_wave_info *info, uint64_t first, uint64_t n, float *out)
{
    size_t bytes = info->bits / 8;
    const uint8_t *from = data + info->data + (size_t)first * info->channels * bytes;
    for (uint64_t i = 0; i < n; i++) {
        for (uint32_t c = 0; c < info->channels; c++, from += bytes)
            out[c * n + i] = info->real ? real_at(from, info->bits) : pcm_at(from, info->bits);
    }
}

#ifdef LEAT_FLAC_SONAME
#include <FLAC/stream_decoder.h>

#define CALLS(X)                                                                                                       \
    X(FLAC__stream_decoder_delete)                                                                                     \
    X(FLAC__stream_decoder_finish)                                                                                     \
    X(FLAC__stream_decoder_get_state)                                                                                  \
    X(FLAC__stream_decoder_init_stream)                                                                                \
    X(FLAC__stream_decoder_new)                                                                                        \
    X(FLAC__stream_decoder_process_single)                                                                             \
    X(FLAC__stream_decoder_process_until_end_of_metadata)                                                              \
    X(FLAC__stream_decoder_seek_absolute)

#define X(f) __typeof__(&(f)) f; /* NOLINT(bugprone-macro-parentheses) */
static struct {
    CALLS(X)
} flac;
#undef X
#define X(f) #f,
static const char *const names[] = {CALLS(X) NULL};
#undef X

static struct leat_library library = {
    .soname = LEAT_FLAC_SONAME,
    .package = "libflac12",
    .names = names,
    .calls = (leat_library_call *)(void *)&flac,
};

/* A file in memory and how far it has been heard. */
struct hearing {
    const uint8_t *data;
    size_t size;
    size_t at;
    const struct leat_wave_info *info;
    uint64_t first; /* wanted */
    uint64_t n;
    uint64_t next; /* the first sample that has not come yet */
    float *out;
    bool damaged;
};

static FLAC__StreamDecoderReadStatus on_read(const FLAC__StreamDecoder *d, FLAC__byte to[], size_t *n, void *user)
{
    struct hearing *h = user;
    (void)d;
    size_t left = h->size - h->at;
    *n = *n < left ? *n : left;
    memcpy(to, h->data + h->at, *n);
    h->at += *n;
    return *n ? FLAC__STREAM_DECODER_READ_STATUS_CONTINUE : FLAC__STREAM_DECODER_READ_STATUS_END_OF_STREAM;
}

static FLAC__StreamDecoderSeekStatus on_seek(const FLAC__StreamDecoder *d, FLAC__uint64 to, void *user)
{
    struct hearing *h = user;
    (void)d;
    if (to > h->size)
        return FLAC__STREAM_DECODER_SEEK_STATUS_ERROR;
    h->at = (size_t)to;
    return FLAC__STREAM_DECODER_SEEK_STATUS_OK;
}

static FLAC__StreamDecoderTellStatus on_tell(const FLAC__StreamDecoder *d, FLAC__uint64 *at, void *user)
{
    (void)d;
    *at = ((struct hearing *)user)->at;
    return FLAC__STREAM_DECODER_TELL_STATUS_OK;
}

static FLAC__StreamDecoderLengthStatus on_length(const FLAC__StreamDecoder *d, FLAC__uint64 *n, void *user)
{
    (void)d;
    *n = ((struct hearing *)user)->size;
    return FLAC__STREAM_DECODER_LENGTH_STATUS_OK;
}

static FLAC__bool on_eof(const FLAC__StreamDecoder *d, void *user)
{
    const struct hearing *h = user;
    (void)d;
    return h->at == h->size;
}

static FLAC__StreamDecoderWriteStatus on_write(const FLAC__StreamDecoder *d, const FLAC__Frame *frame,
                                               const FLAC__int32 *const from[], void *user)
{
    struct hearing *h = user;
    (void)d;
    uint64_t begin = frame->header.number.sample_number;
    uint32_t count = frame->header.blocksize;
    if (frame->header.channels != h->info->channels || frame->header.bits_per_sample != h->info->bits ||
        begin != h->next) {
        h->damaged = true;
        return FLAC__STREAM_DECODER_WRITE_STATUS_ABORT;
    }
    float scale = 1.0f / (float)(1u << (h->info->bits - 1));
    for (uint32_t i = 0; i < count; i++) {
        uint64_t place = begin + i;
        for (uint32_t c = 0; place >= h->first && place - h->first < h->n && c < h->info->channels; c++)
            h->out[c * h->n + (place - h->first)] = (float)from[c][i] * scale;
    }
    h->next = begin + count;
    return FLAC__STREAM_DECODER_WRITE_STATUS_CONTINUE;
}

static void on_error(const FLAC__StreamDecoder *d, FLAC__StreamDecoderErrorStatus status, void *user)
{
    (void)d, (void)status;
    ((struct hearing *)user)->damaged = true;
}

static bool hear(FLAC__StreamDecoder *d, struct hearing *h)
{
    if (flac.FLAC__stream_decoder_init_stream(d, on_read, on_seek, on_tell, on_length, on_eof, on_write, NULL, on_error,
                                              h) != FLAC__STREAM_DECODER_INIT_STATUS_OK ||
        !flac.FLAC__stream_decoder_process_until_end_of_metadata(d))
        return false;
    /* libFLAC hands the rest of the frame that it found to on_write(). */
    if (h->first) {
        h->next = h->first;
        if (!flac.FLAC__stream_decoder_seek_absolute(d, h->first))
            return false;
    }
    while (h->next < h->first + h->n && !h->damaged) {
        if (!flac.FLAC__stream_decoder_process_single(d) ||
            flac.FLAC__stream_decoder_get_state(d) == FLAC__STREAM_DECODER_END_OF_STREAM)
            break;
    }
    return !h->damaged && h->next >= h->first + h->n;
}

static leat_status read_flac(const void *data, size_t size, const struct leat_wave_info *info, uint64_t first,
                             uint64_t n, float *out, struct leat_error *err)
{
    struct hearing h = {.data = data, .size = size, .info = info, .first = first, .n = n};
    h.out = out;
    leat_status rc = leat_library_open(&library, err);
    if (rc != LEAT_OK)
        return leat_fail_context(err, rc, "FLAC");
    FLAC__StreamDecoder *d = flac.FLAC__stream_decoder_new();
    if (!d)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a FLAC");
    bool fine = hear(d, &h);
    bool lacked = flac.FLAC__stream_decoder_get_state(d) == FLAC__STREAM_DECODER_MEMORY_ALLOCATION_ERROR;
    flac.FLAC__stream_decoder_finish(d);
    flac.FLAC__stream_decoder_delete(d);
    if (lacked)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a FLAC");
    return fine ? LEAT_OK
                : leat_fail(err, LEAT_CORRUPT, "FLAC: damaged or cut off between samples %" PRIu64 " and %" PRIu64,
                            first, first + n);
}

#else

static leat_status read_flac(const void *data, size_t size, const struct leat_wave_info *info, uint64_t first,
                             uint64_t n, float *out, struct leat_error *err)
{
    (void)data, (void)size, (void)info, (void)first, (void)n, (void)out;
    return leat_fail(err, LEAT_UNSUPPORTED, "a FLAC: this was built without libFLAC (libflac-dev)");
}

#endif

/* The header is read here whether or not there is a library: its first block says all of it. */
static leat_status probe_flac(const uint8_t *p, size_t size, struct leat_wave_info *info, struct leat_error *err)
{
    if (size < 42 || (p[4] & 0x7f) != 0)
        return leat_fail(err, LEAT_CORRUPT, "FLAC of %zu bytes ends inside its header", size);
    p += 18;
    info->rate = (uint32_t)p[0] << 12 | (uint32_t)p[1] << 4 | p[2] >> 4;
    info->channels = (p[2] >> 1 & 7) + 1u;
    info->bits = ((p[2] & 1u) << 4 | p[3] >> 4) + 1u;
    info->frames =
        (uint64_t)(p[3] & 15) << 32 | (uint64_t)p[4] << 24 | (uint64_t)p[5] << 16 | (uint64_t)p[6] << 8 | p[7];
    if (info->bits < 4 || info->bits > 32)
        return leat_fail(err, LEAT_CORRUPT, "FLAC of %" PRIu32 " bits", info->bits);
    if (!info->frames)
        return leat_fail(err, LEAT_UNSUPPORTED, "FLAC does not say how long it is: encode it to a file again");
    return check_info(info, "FLAC", err);
}

leat_status leat_wave_probe(const void *data, size_t size, struct leat_wave_info *out, struct leat_error *err)
{
    struct leat_wave_info info = {0};
    leat_status rc;
    if (size >= 12 && memcmp(data, "RIFF", 4) == 0 && memcmp((const char *)data + 8, "WAVE", 4) == 0) {
        rc = probe_wav(data, size, &info, err);
    } else if (size >= 4 && memcmp(data, "fLaC", 4) == 0) {
        info.type = LEAT_WAVE_FLAC;
        rc = probe_flac(data, size, &info, err);
    } else if (!size) {
        return leat_fail(err, LEAT_CORRUPT, "the sound has no bytes");
    } else {
        return leat_fail(err, LEAT_UNSUPPORTED, "neither WAV nor FLAC: the first byte is 0x%02x",
                         *(const uint8_t *)data);
    }
    if (rc == LEAT_OK)
        *out = info;
    return rc;
}

leat_status leat_wave_read(const void *data, size_t size, const struct leat_wave_info *info, uint64_t first, uint64_t n,
                           float *out, struct leat_error *err)
{
    if (first > info->frames || n > info->frames - first)
        return leat_fail(err, LEAT_INTERNAL, "samples that a sound does not have");
    if (info->type == LEAT_WAVE_FLAC)
        return n ? read_flac(data, size, info, first, n, out, err) : LEAT_OK;
    read_wav(data, info, first, n, out);
    return LEAT_OK;
}
