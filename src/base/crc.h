/* The checksums of other people's objects: CRC-32 (of zip), CRC-64/NVME, and putting together those of neighbouring
 * pieces. CRC-32C, which Leat uses itself, is in base/hash.h. */
#ifndef LEAT_BASE_CRC_H
#define LEAT_BASE_CRC_H

#include <stddef.h>
#include <stdint.h>

/* Start with 0; feed the result back in to go on. */
uint32_t leat_crc32(uint32_t crc, const void *data, size_t n);
uint64_t leat_crc64nvme(uint64_t crc, const void *data, size_t n);

#define LEAT_CRC32_POLYNOMIAL     0xedb88320ull /* reflected, as the other two */
#define LEAT_CRC32C_POLYNOMIAL    0x82f63b78ull
#define LEAT_CRC64NVME_POLYNOMIAL 0x9a6c9329ac4bc9b5ull

/* The checksum of A followed by B, from those of both and B's length. */
uint64_t leat_crc_combine(uint64_t polynomial, uint64_t a, uint64_t b, uint64_t b_bytes);

#endif
