/* libjpeg behind a door that errors cannot leave.
 *
 * libjpeg reports a fatal error by calling a function that must not return. Here that function jumps back into
 * the entry point of this file that Rust called, over C frames only: every entry point arms its own jump
 * (setjmp) and answers with a code. No Rust frame is ever jumped over.
 *
 * Warnings are sorted: those that say pixels were made up are errors, the others (stray bytes between
 * segments, unknown Adobe colour codes, ...) are passed over, as Pillow does.
 */
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JPEG_INTERNALS
#include "jinclude.h"
#include "jpeglib.h"
#include "jerror.h"

#define ENDS_EARLY "the file ends before the picture does"
#define MOST_SCANS 500

enum { OK = 0, FAILED = 1 };

/* Keep the order in step with `Output` in session.rs. */
enum { AS_GRAY = 0, AS_RGB = 1, AS_RGBX = 2, AS_CMYK = 3 };

/* One scan as entropy/mod.rs wants it described. Keep in step with `Scan` there. */
typedef struct {
    uint32_t blocks, mcus_per_row, first_column, last_column, restart_interval;
    uint8_t component[10];
    uint8_t needed[10];        /* 0 nothing, 1 only the DC coefficient, 2 everything */
    uint8_t dc[10], ac[10];
    const JHUFF_TBL *dc_tables[4], *ac_tables[4];
    const uint8_t *data;
    size_t length;
} feedline_scan;

/* An entropy decoder in place of libjpeg's, or nulls. */
typedef struct {
    void *state;
    int (*begin)(void *state, const feedline_scan *scan);
    int (*mcu)(void *state, JBLOCKROW *blocks);
} feedline_entropy;

typedef struct {
    struct jpeg_decompress_struct decompress;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    feedline_entropy entropy;
    jmp_buf door;
    int exhausted;             /* the source had to invent an end of image */
    char message[JMSG_LENGTH_MAX];
} feedline_jpeg;

typedef struct {
    uint32_t width, height;
    uint32_t components;
    uint32_t precision;
    uint32_t four_channels;    /* CMYK or YCCK */
    uint32_t gray;
    uint32_t multiple_scans;
    uint32_t position;         /* bytes of the file read so far, up to the first scan's data */
} feedline_jpeg_facts;

typedef struct {
    uint32_t output;           /* one of AS_... */
    uint32_t eighths;          /* scale of the DCT: 8 is full size, 4 half, 2 a quarter, 1 an eighth */
    uint32_t x, width;         /* columns wanted, in scaled pixels; answers those that will come */
    uint32_t full_width, full_height;
    uint32_t row_alignment;    /* rows that are decoded together */
} feedline_jpeg_plan;

static void leave(j_common_ptr any)
{
    feedline_jpeg *jpeg = (feedline_jpeg *)any->client_data;
    if (jpeg->exhausted)
        snprintf(jpeg->message, sizeof jpeg->message, "%s", ENDS_EARLY);
    else
        (*any->err->format_message)(any, jpeg->message);
    longjmp(jpeg->door, 1);
}

/* A file can ask for a pass over all coefficients in a few bytes, and for thousands of them. */
static void on_progress(j_common_ptr any)
{
    feedline_jpeg *jpeg = (feedline_jpeg *)any->client_data;
    if (jpeg->decompress.input_scan_number <= MOST_SCANS)
        return;
    snprintf(jpeg->message, sizeof jpeg->message, "more than %d scans", MOST_SCANS);
    longjmp(jpeg->door, 1);
}

static void on_message(j_common_ptr any, int level)
{
    feedline_jpeg *jpeg = (feedline_jpeg *)any->client_data;
    if (level >= 0)
        return;
    any->err->num_warnings++;
    switch (any->err->msg_code) {
    case JWRN_JPEG_EOF:
        /* Alone it only says that the last marker is missing. What was lost with it shows as one of the next. */
        jpeg->exhausted = 1;
        if (!jpeg->decompress.inputctl || !jpeg->decompress.progressive_mode)
            return;
        break;
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_MUST_RESYNC:
        break;
    default:
        return;
    }
    leave(any);
}

static void on_output(j_common_ptr any)
{
    (void)any; /* never to stderr */
}

feedline_jpeg *feedline_jpeg_new(void)
{
    feedline_jpeg *volatile jpeg = calloc(1, sizeof *jpeg); /* still known after a jump */
    if (!jpeg)
        return NULL;
    jpeg->decompress.err = jpeg_std_error(&jpeg->errors);
    jpeg->errors.error_exit = leave;
    jpeg->errors.emit_message = on_message;
    jpeg->errors.output_message = on_output;
    jpeg->decompress.client_data = jpeg;
    if (setjmp(jpeg->door)) {
        free(jpeg);
        return NULL;
    }
    jpeg_create_decompress(&jpeg->decompress);
    jpeg->decompress.client_data = jpeg;
    return jpeg;
}

void feedline_jpeg_free(feedline_jpeg *jpeg)
{
    if (!jpeg)
        return;
    if (!setjmp(jpeg->door))
        jpeg_destroy_decompress(&jpeg->decompress);
    free(jpeg);
}

const char *feedline_jpeg_message(const feedline_jpeg *jpeg)
{
    return jpeg->message;
}

/* The entropy decoder's state must live until the decoder is freed; null for libjpeg's own. */
void feedline_jpeg_entropy(feedline_jpeg *jpeg, const feedline_entropy *entropy)
{
    jpeg->entropy = *entropy;
}

int feedline_jpeg_open(feedline_jpeg *jpeg, const uint8_t *bytes, size_t length, long memory,
                       feedline_jpeg_facts *facts)
{
    struct jpeg_decompress_struct *d = &jpeg->decompress;
    if (setjmp(jpeg->door))
        return FAILED;
    d->mem->max_memory_to_use = memory;
    jpeg->progress.progress_monitor = on_progress;
    d->progress = &jpeg->progress;
    jpeg_mem_src(d, bytes, length);
    jpeg_read_header(d, TRUE);
    facts->width = d->image_width;
    facts->height = d->image_height;
    facts->components = (uint32_t)d->num_components;
    facts->precision = (uint32_t)d->data_precision;
    facts->four_channels = d->jpeg_color_space == JCS_CMYK || d->jpeg_color_space == JCS_YCCK;
    facts->gray = d->jpeg_color_space == JCS_GRAYSCALE;
    facts->multiple_scans = d->progressive_mode || d->comps_in_scan < d->num_components;
    facts->position = (uint32_t)(length - d->src->bytes_in_buffer);
    return OK;
}

/* Stands in for libjpeg's decode_mcu: same arguments, same coefficients. */
static boolean decode_mcu(j_decompress_ptr d, JBLOCKROW *blocks)
{
    feedline_jpeg *jpeg = (feedline_jpeg *)d->client_data;
    int code = (*jpeg->entropy.mcu)(jpeg->entropy.state, blocks);
    if (code == 0)
        return TRUE;
    const char *reason = code == 1   ? "a Huffman code that its tables do not have"
                         : code == 2 ? "a marker before the end of the data"
                         : code == 3 ? ENDS_EARLY
                                     : "a restart marker out of order";
    snprintf(jpeg->message, sizeof jpeg->message, "%s", reason);
    longjmp(jpeg->door, 1);
}

/* Takes over from libjpeg's entropy decoder if the file has one sequential Huffman scan. */
static void take_over(feedline_jpeg *jpeg)
{
    struct jpeg_decompress_struct *d = &jpeg->decompress;
    feedline_scan scan;
    if (!jpeg->entropy.state || d->progressive_mode || d->arith_code || d->inputctl->has_multiple_scans ||
        d->data_precision != 8 || d->unread_marker != 0 || d->blocks_in_MCU > 10)
        return;
    memset(&scan, 0, sizeof scan);
    scan.blocks = (uint32_t)d->blocks_in_MCU;
    scan.mcus_per_row = d->MCUs_per_row;
    scan.first_column = d->master->first_iMCU_col;
    scan.last_column = d->master->last_iMCU_col;
    scan.restart_interval = d->restart_interval;
    for (int i = 0; i < d->blocks_in_MCU; i++) {
        const jpeg_component_info *component = d->cur_comp_info[d->MCU_membership[i]];
        scan.component[i] = (uint8_t)d->MCU_membership[i];
        scan.needed[i] = !component->component_needed ? 0 : component->DCT_scaled_size > 1 ? 2 : 1;
        scan.dc[i] = (uint8_t)component->dc_tbl_no;
        scan.ac[i] = (uint8_t)component->ac_tbl_no;
    }
    for (int i = 0; i < 4; i++) {
        scan.dc_tables[i] = d->dc_huff_tbl_ptrs[i];
        scan.ac_tables[i] = d->ac_huff_tbl_ptrs[i];
    }
    scan.data = d->src->next_input_byte;
    scan.length = d->src->bytes_in_buffer;
    if ((*jpeg->entropy.begin)(jpeg->entropy.state, &scan) == 0)
        d->entropy->decode_mcu = decode_mcu;
}

int feedline_jpeg_start(feedline_jpeg *jpeg, feedline_jpeg_plan *plan)
{
    struct jpeg_decompress_struct *d = &jpeg->decompress;
    JDIMENSION x = plan->x, width = plan->width;
    if (setjmp(jpeg->door))
        return FAILED;
    d->out_color_space = plan->output == AS_GRAY   ? JCS_GRAYSCALE
                         : plan->output == AS_RGB  ? JCS_RGB
                         : plan->output == AS_RGBX ? JCS_EXT_RGBA
                                                   : JCS_CMYK;
    d->dct_method = JDCT_ISLOW;
    d->do_fancy_upsampling = TRUE;
    d->do_block_smoothing = FALSE; /* it invents what missing scans would have said */
    d->scale_num = plan->eighths;
    d->scale_denom = 8;
    jpeg_start_decompress(d);
    plan->full_width = d->output_width;
    plan->full_height = d->output_height;
    plan->row_alignment = (uint32_t)(d->max_v_samp_factor * d->min_DCT_scaled_size);
    if (width == 0)
        width = d->output_width;
    jpeg_crop_scanline(d, &x, &width);
    plan->x = x;
    plan->width = width;
    take_over(jpeg);
    return OK;
}

int feedline_jpeg_skip(feedline_jpeg *jpeg, uint32_t rows)
{
    if (setjmp(jpeg->door))
        return FAILED;
    jpeg_skip_scanlines(&jpeg->decompress, rows);
    return OK;
}

/* Reads `rows` rows of `stride` bytes each. The caller made sure that so many are left. */
int feedline_jpeg_read(feedline_jpeg *jpeg, uint8_t *into, size_t stride, uint32_t rows)
{
    JSAMPROW row[16];
    if (setjmp(jpeg->door))
        return FAILED;
    for (uint32_t done = 0; done < rows;) {
        uint32_t wanted = rows - done < 16 ? rows - done : 16;
        for (uint32_t i = 0; i < wanted; i++)
            row[i] = into + (done + i) * stride;
        JDIMENSION got = jpeg_read_scanlines(&jpeg->decompress, row, wanted);
        if (got == 0) {
            snprintf(jpeg->message, sizeof jpeg->message, "the picture has fewer rows than it says");
            return FAILED;
        }
        done += got;
    }
    return OK;
}

extern int jsimd_can_idct_islow(void);
extern int jsimd_can_ycc_rgb(void);

/* Whether this machine's vector instructions are used for the inverse DCT and the colours. */
int feedline_jpeg_simd(void)
{
    return jsimd_can_idct_islow() && jsimd_can_ycc_rgb();
}
