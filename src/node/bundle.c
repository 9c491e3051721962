/* SPDX-License-Identifier: Apache-2.0 */
#include "node/bundle.h"

#include <ctype.h>
#include <dirent.h>
#include <elf.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <libdeflate.h>
#include <xxhash.h>

#include "base/cleanup.h"
#include "base/executable.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "node/environment.h"

enum {
    SCRATCH_BYTES = 64 * 1024,
    FILES_MAX = 64,
    GZIP_LEVEL = 1 /* leaves 52 % of 3.6 MB; the default, 48 % in four times the time */
};

/* ---- a file, as far as it travels ---- */

/* The part of a file that is sent; image_next() gives its bytes. */
struct image {
    int fd;
    size_t n_left;    /* bytes that are still to be sent */
    char first[4096]; /* with the headers of an ELF file */
    size_t n_first;
    bool has_first; /* `first` was given */
};

/* Where the loaded part of an ELF file ends, which begins with `first`; n_bytes if it is none. */
static size_t image_end(const struct image *image, size_t n_bytes)
{
    Elf64_Ehdr header;
    Elf64_Phdr segment;
    if (image->n_first < sizeof(header))
        return n_bytes;
    memcpy(&header, image->first, sizeof(header));
    bool is_known = memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
                    header.e_ident[EI_CLASS] == ELFCLASS64 &&
                    header.e_ident[EI_DATA] == ELFDATA2LSB && BYTE_ORDER == LITTLE_ENDIAN &&
                    header.e_phentsize == sizeof(segment) && header.e_phoff < image->n_first &&
                    header.e_phnum <= (image->n_first - header.e_phoff) / sizeof(segment);
    if (!is_known)
        return n_bytes;
    uint64_t end = MAX(sizeof(header), header.e_phoff + header.e_phnum * sizeof(segment));
    for (size_t i = 0; i < header.e_phnum; i++) {
        memcpy(&segment, image->first + header.e_phoff + i * sizeof(segment), sizeof(segment));
        if (segment.p_offset > n_bytes || segment.p_filesz > n_bytes - segment.p_offset)
            return n_bytes;
        end = MAX(end, segment.p_offset + segment.p_filesz);
    }
    return (size_t)end;
}

/* Clears the header's fields about sections: they lie behind the loaded part, and are not sent. */
static void sections_forget(struct image *image)
{
    Elf64_Ehdr header;
    memcpy(&header, image->first, sizeof(header));
    header.e_shoff = 0;
    header.e_shnum = header.e_shstrndx = 0;
    memcpy(image->first, &header, sizeof(header));
}

/* Reads up to `max` bytes, and fewer only at the end of the file. */
static ssize_t bytes_read(int fd, char *at, size_t max)
{
    size_t n = 0;
    while (n < max) {
        ssize_t got = read(fd, at + n, max - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        n += (size_t)got;
    }
    return (ssize_t)n;
}

static int image_open(const char *path, struct image *image, struct err *err)
{
    struct stat st = {0};
    *image = (struct image){.fd = open(path, O_RDONLY | O_CLOEXEC)};
    ssize_t got = -1;
    if (image->fd >= 0 && fstat(image->fd, &st) == 0 && S_ISREG(st.st_mode))
        got = bytes_read(image->fd, image->first, sizeof(image->first));
    if (got < 0) {
        fd_close(&image->fd);
        return fail_errno_as(err, ERR_USAGE, "read the program's file %s", path);
    }
    image->n_first = (size_t)got;
    image->n_left = image_end(image, (size_t)st.st_size);
    if (image->n_left < (size_t)st.st_size)
        sections_forget(image);
    image->n_first = MIN(image->n_first, image->n_left);
    return 0;
}

/* The next bytes, in `scratch` or the image; "" at the end, or if the file has become shorter. */
static struct str image_next(struct image *image, char *scratch, size_t max)
{
    struct str part = {image->first, image->n_first};
    if (image->has_first) {
        ssize_t got = bytes_read(image->fd, scratch, MIN(max, image->n_left));
        part = (struct str){scratch, (size_t)MAX(got, (ssize_t)0)};
    }
    image->has_first = true;
    image->n_left -= part.len;
    return part;
}

/* Adds the bytes of a file that are sent. */
static int image_read(const char *path, struct buf *out, struct err *err)
{
    struct image image;
    int rc = image_open(path, &image, err);
    if (rc)
        return rc;
    buf_reserve(out, image.n_left);
    for (struct str part = {"", 1}; part.len > 0;) {
        part = image_next(&image, out->at + out->len, image.n_left);
        if (part.at == image.first)
            buf_add_str(out, part);
        else
            buf_extend(out, part.len);
    }
    fd_close(&image.fd);
    return image.n_left == 0 ? 0 : fail(err, ERR_USAGE, "%s has become shorter", path);
}

static void hash_write(XXH128_hash_t hash, char out[BUNDLE_HASH_BYTES])
{
    snprintf(out, BUNDLE_HASH_BYTES, "%016lx%016lx", hash.high64, hash.low64);
}

/* The hash and the number of these bytes. */
static int image_hash(const char *path, char out[BUNDLE_HASH_BYTES], size_t *n_bytes,
                      struct err *err)
{
    static char scratch[SCRATCH_BYTES]; /* in the processor's cache; 5 MB take 1 ms */
    struct image image = {.fd = -1};
    XXH3_state_t *state = XXH3_createState();
    int rc = state ? image_open(path, &image, err) : fail(err, ERR_STOPPED, "no memory is left");
    if (rc == 0) {
        *n_bytes = image.n_left;
        XXH3_128bits_reset(state);
        for (struct str part = {"", 1}; part.len > 0;) {
            part = image_next(&image, scratch, sizeof(scratch));
            XXH3_128bits_update(state, part.at, part.len);
        }
        fd_close(&image.fd);
        hash_write(XXH3_128bits_digest(state), out);
    }
    XXH3_freeState(state);
    return rc;
}

int program_hash(char out[BUNDLE_HASH_BYTES], struct err *err)
{
    size_t n_bytes;
    return image_hash("/proc/self/exe", out, &n_bytes, err);
}

/* ---- the files of a bundle ---- */

void bundle_release(struct bundle *bundle)
{
    for (size_t i = 0; i < bundle->n_files; i++) {
        free(bundle->files[i].name);
        free(bundle->files[i].path);
    }
    free(bundle->files);
    for (size_t form = 0; form < BUNDLE_FORMS; form++)
        buf_release(&bundle->packed[form]);
    *bundle = (struct bundle){0};
}

/* Takes both strings over. */
static void file_add(struct bundle *bundle, char *name, char *path)
{
    bundle->files = xrealloc(bundle->files, (bundle->n_files + 1) * sizeof(*bundle->files));
    bundle->files[bundle->n_files++] = (struct bundle_file){.name = name, .path = path};
}

/* Can the name stand in a shell's list of words? */
static bool is_plain_name(const char *name)
{
    bool is = name[0] != '\0' && name[0] != '.' && name[0] != '-';
    for (; is && *name; name++)
        is = isalnum((unsigned char)*name) || strchr("._+-", *name);
    return is;
}

/* NOLINTBEGIN(misc-no-recursion): one folder deep */
/* Adds what lies in a folder, and in the folders in it, whose names begin with `before`. */
static int folder_add(struct bundle *bundle, const char *folder, const char *before,
                      struct err *err)
{
    DIR *entries = opendir(folder);
    const struct dirent *entry;
    int rc = 0;
    if (!entries)
        return fail_errno_as(err, ERR_USAGE, "read the folder %s", folder);
    while (rc == 0 && (entry = readdir(entries))) {
        if (entry->d_name[0] == '.')
            continue;
        char *path = path_join(folder, entry->d_name);
        if (!is_plain_name(entry->d_name) || bundle->n_files >= FILES_MAX) {
            rc = fail(err, ERR_USAGE, "%s does not belong to a bundle", path);
            free(path);
        } else if (!before[0] && folder_exists(path)) {
            cleanup_free char *inner = xasprintf("%s/", entry->d_name);
            rc = folder_add(bundle, path, inner, err);
            free(path);
        } else {
            file_add(bundle, xasprintf("%s%s", before, entry->d_name), path);
        }
    }
    closedir(entries);
    return rc;
}
/* NOLINTEND(misc-no-recursion) */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct bundle_file *)a)->name, ((const struct bundle_file *)b)->name);
}

/* Sets the bundle's name, and the hash of its program. */
static int bundle_name(struct bundle *bundle, struct err *err)
{
    cleanup_buf struct buf names = BUF_INIT;
    int rc = 0;
    if (bundle->n_files > 0)
        qsort(bundle->files, bundle->n_files, sizeof(*bundle->files), by_name);
    for (size_t i = 0; rc == 0 && i < bundle->n_files; i++) {
        struct bundle_file *file = &bundle->files[i];
        char hash[BUNDLE_HASH_BYTES] = "";
        rc = image_hash(file->path, hash, &file->n_bytes, err);
        buf_addf(&names, "%s %s\n", hash, file->name);
        if (strcmp(file->name, "muster") == 0)
            memcpy(bundle->program, hash, sizeof(hash));
    }
    hash_write(XXH3_128bits(buf_text(&names), names.len), bundle->name);
    return rc;
}

int bundle_of_folder(const char *folder, struct bundle *out, struct err *err)
{
    *out = (struct bundle){0};
    int rc = folder_add(out, folder, "", err);
    if (rc == 0)
        rc = bundle_name(out, err);
    if (rc == 0 && !out->program[0])
        rc = fail(err, ERR_USAGE, "there is no muster in %s", folder);
    if (rc)
        bundle_release(out);
    return rc;
}

/* ---- the running program ---- */

/* Is the library a part of libc, or on every system with that libc? */
static bool is_of_system(const char *library)
{
    static const char *const names[] = {"libc.",       "libm.",      "libdl.", "librt.",
                                        "libpthread.", "libresolv.", "ld-",    "libnss_"};
    bool is = false;
    for (size_t i = 0; i < countof(names); i++)
        is |= strncmp(library, names[i], strlen(names[i])) == 0;
    return is;
}

static int library_add(struct dl_phdr_info *info, size_t size, void *context)
{
    struct bundle *bundle = context;
    const char *path = info->dlpi_name, *name = path ? path_basename(path) : "";
    (void)size;
    if (path && strchr(path, '/') && is_plain_name(name) && !is_of_system(name))
        file_add(bundle, xasprintf("lib/%s", name), xstrdup(path));
    return 0;
}

/* Adds a file, if it exists. */
static void companion_add(struct bundle *bundle, const char *name, char *path)
{
    if (path && path_exists(path))
        file_add(bundle, xstrdup(name), path);
    else
        free(path);
}

static int running_bundle(const char *self_path, struct bundle *out, struct err *err)
{
    static const char *const programs[] = {"muster-guard", "muster-devices"};
    cleanup_free char *python = python_dir_new(self_path);
    *out = (struct bundle){0};
    file_add(out, xstrdup("muster"), xstrdup("/proc/self/exe"));
    for (size_t i = 0; i < countof(programs); i++)
        companion_add(out, programs[i], program_find_beside(self_path, programs[i]));
    if (python)
        companion_add(out, "muster.py", path_join(python, "muster.py"));
    dl_iterate_phdr(library_add, out);
    int rc = bundle_name(out, err);
    if (rc)
        bundle_release(out);
    return rc;
}

/* ---- all bundles ---- */

static void machine_name(char out[BUNDLE_MACHINE_BYTES])
{
    struct utsname names = {0};
    (void)uname(&names);
    snprintf(out, BUNDLE_MACHINE_BYTES, "%.*s", BUNDLE_MACHINE_BYTES - 1, names.machine);
}

static void bundle_keep(struct bundles *bundles, struct bundle bundle, const char *machine)
{
    bundles->at = xrealloc(bundles->at, (bundles->len + 1) * sizeof(*bundles->at));
    snprintf(bundle.machine, sizeof(bundle.machine), "%s", machine);
    bundles->at[bundles->len++] = bundle;
}

/* The bundles of a folder agents/. */
static int agents_add(struct bundles *bundles, const char *folder, struct err *err)
{
    DIR *entries = opendir(folder);
    const struct dirent *entry;
    int rc = 0;
    while (rc == 0 && entries && (entry = readdir(entries))) {
        struct bundle bundle;
        cleanup_free char *path = path_join(folder, entry->d_name);
        if (!is_plain_name(entry->d_name) || strlen(entry->d_name) >= BUNDLE_MACHINE_BYTES)
            continue;
        rc = bundle_of_folder(path, &bundle, err);
        if (rc == 0)
            bundle_keep(bundles, bundle, entry->d_name);
    }
    if (entries)
        closedir(entries);
    return rc;
}

static char *agents_folder_new(const char *self_path)
{
    static const char *const places[] = {"agents", "../libexec/agents", "../libexec/muster/agents"};
    cleanup_free char *beside = path_dirname(self_path);
    for (size_t i = 0; i < countof(places); i++) {
        char *folder = path_join(beside, places[i]);
        if (folder_exists(folder))
            return folder;
        free(folder);
    }
    return NULL;
}

/* Adds the bundle of the running program. The program's hash is taken from it, if there is one. */
static int own_add(struct bundles *bundles, struct err *err)
{
    char own[BUNDLE_MACHINE_BYTES];
    struct bundle running;
    machine_name(own);
    if (bundles_get(bundles, str_of(own)))
        return program_hash(bundles->program, err);
    int rc = running_bundle(bundles->self_path, &running, err);
    if (rc)
        return rc;
    memcpy(bundles->program, running.program, sizeof(bundles->program));
    bundle_keep(bundles, running, own);
    return 0;
}

int bundles_find(struct bundles *bundles, struct err *err)
{
    if (bundles->program[0])
        return 0;
    cleanup_free char *agents = agents_folder_new(bundles->self_path);
    int rc = agents ? agents_add(bundles, agents, err) : 0;
    if (rc == 0)
        rc = own_add(bundles, err);
    if (rc)
        bundles_release(bundles);
    return rc;
}

void bundles_release(struct bundles *bundles)
{
    for (size_t i = 0; i < bundles->len; i++)
        bundle_release(&bundles->at[i]);
    free(bundles->at);
    *bundles = (struct bundles){.self_path = bundles->self_path};
}

struct bundle *bundles_get(const struct bundles *bundles, struct str machine)
{
    for (size_t i = 0; i < bundles->len; i++)
        if (str_equal(str_of(bundles->at[i].machine), machine))
            return &bundles->at[i];
    return NULL;
}

/* ---- what is sent ---- */

/* The CRC of POSIX's cksum: polynomial 0x04C11DB7, highest bit first, the length behind the bytes. */
static uint32_t cksum(struct str bytes)
{
    uint32_t table[256], crc = 0;
    for (uint32_t i = 0; i < countof(table); i++) {
        table[i] = i << 24;
        for (unsigned bit = 0; bit < 8; bit++)
            table[i] = table[i] << 1 ^ (table[i] >> 31 ? 0x04C11DB7U : 0);
    }
    for (size_t i = 0; i < bytes.len; i++)
        crc = crc << 8 ^ table[(crc >> 24 ^ (unsigned char)bytes.at[i]) & 0xFF];
    for (size_t len = bytes.len; len > 0; len >>= 8)
        crc = crc << 8 ^ table[(crc >> 24 ^ len) & 0xFF];
    return ~crc;
}

static int gzip_add(struct str bytes, struct buf *out, struct err *err)
{
    struct libdeflate_compressor *compressor = libdeflate_alloc_compressor(GZIP_LEVEL);
    if (!compressor)
        return fail(err, ERR_STOPPED, "no memory is left to compress the program");
    buf_reserve(out, libdeflate_gzip_compress_bound(compressor, bytes.len));
    buf_extend(out, libdeflate_gzip_compress(compressor, bytes.at, bytes.len, out->at + out->len,
                                             out->cap - out->len - 1));
    libdeflate_free_compressor(compressor);
    return 0;
}

int bundle_pack(struct bundle *bundle, enum bundle_form form, struct str *out, struct err *err)
{
    cleanup_buf struct buf bytes = BUF_INIT, sent = BUF_INIT;
    struct buf *packed = &bundle->packed[form];
    *out = buf_str(packed);
    if (packed->len > 0)
        return 0;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < bundle->n_files; i++) {
        size_t begin = bytes.len;
        rc = image_read(bundle->files[i].path, &bytes, err);
        bundle->files[i].n_bytes = bytes.len - begin;
    }
    if (rc == 0 && form == BUNDLE_GZIP)
        rc = gzip_add(buf_str(&bytes), &sent, err);
    else if (rc == 0)
        buf_add_str(&sent, buf_str(&bytes));
    if (rc)
        return rc;
    buf_addf(packed, "%zu %u:%zu", sent.len, cksum(buf_str(&bytes)), bytes.len);
    for (size_t i = 0; i < bundle->n_files; i++)
        buf_addf(packed, " %s:%zu", bundle->files[i].name, bundle->files[i].n_bytes);
    buf_add_char(packed, '\n');
    buf_add_str(packed, buf_str(&sent));
    *out = buf_str(packed);
    return 0;
}
