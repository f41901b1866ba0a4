"""CRC32C for the tests' servers."""


def crc32c_table():
    table = []
    for i in range(256):
        crc = i
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return table


TABLE = crc32c_table()


def crc32c(data):
    try:
        import google_crc32c

        return google_crc32c.value(data)
    except ImportError:
        crc = 0xFFFFFFFF
        for byte in data:
            crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
        return crc ^ 0xFFFFFFFF
