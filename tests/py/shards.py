"""What tests of tar shards and token files share: writers of what people have, and reading datasets whole."""

import io
import struct
import tarfile

from augment import use_peers
from loading import import_leat

FORMATS = {"ustar": tarfile.USTAR_FORMAT, "pax": tarfile.PAX_FORMAT, "gnu": tarfile.GNU_FORMAT}


def import_webdataset():
    """The real one, of the pinned release."""
    use_peers()
    import webdataset

    return webdataset


def write_tar(path, members, form="pax", **more):
    """members: (name, bytes), or TarInfo and bytes."""
    with tarfile.open(path, "w", format=FORMATS[form], **more) as tar:
        for name, data in members:
            info = name if isinstance(name, tarfile.TarInfo) else tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def samples(url, **options):
    """{key: {field: value}}, in the order of the numbers; optional values that are missing are left out."""
    found = {}
    for sample in import_leat().open(str(url), **options):
        assert sample.key not in found
        found[sample.key] = {k: v for k, v in dict(sample).items() if v is not None}
    return found


def write_llmc(path, tokens, magic):
    """llm.c's files: 256 ints, then the tokens."""
    version = {20240520: 1, 20240801: 7}[magic]
    path.write_bytes(struct.pack("<256i", magic, version, len(tokens), *([0] * 253)) + tokens.tobytes())
    return path


def write_megatron(path, documents):
    """Megatron's IndexedDatasetBuilder: a .bin and an .idx beside it. A document is a list of sequences, all numpy arrays
    of one type."""
    sequences = [s for document in documents for s in document]
    dtype = sequences[0].dtype
    code = {"uint8": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "uint16": 8}[dtype.name]
    lengths = [len(s) for s in sequences]
    places = [sum(lengths[:i]) * dtype.itemsize for i in range(len(lengths))]
    borders = [0]
    for document in documents:
        borders.append(borders[-1] + len(document))
    path.write_bytes(b"".join(s.tobytes() for s in sequences))
    path.with_suffix(".idx").write_bytes(
        b"MMIDIDX\x00\x00"
        + struct.pack("<QBQQ", 1, code, len(sequences), len(borders))
        + struct.pack(f"<{len(lengths)}i", *lengths)
        + struct.pack(f"<{len(places)}q", *places)
        + struct.pack(f"<{len(borders)}q", *borders)
    )
    return path
