"""Mistakes that type checkers find before a training begins: every line with a mark, and no other."""

import leat

fields = {"x": leat.image("jpg").resize(224), "y": leat.int("cls")}

leat.Loader("s3://b/ds", fields=fields, bach_size=8)  # wrong
leat.Loader("s3://b/ds", fields=fields, batch_size="8")  # wrong
leat.Loader("s3://b/ds", fields=fields, batch_size=8, last="dorp")  # wrong
leat.Loader("s3://b/ds", fields=fields, batch_size=8, shuffle="yes")  # wrong
leat.Loader("s3://b/ds", batch_size=8)  # wrong
leat.Loader(3, fields=fields, batch_size=8)  # wrong
leat.Loader("s3://b/ds", fields={"x": "jpg"}, batch_size=8)  # wrong
leat.image("jpg").resise(3)  # wrong
leat.image(3)  # wrong
leat.image("jpg").flip("often")  # wrong
leat.imgae("jpg")  # wrong
leat.Writer("ds", {"a": 3})  # wrong
leat.open("ds", fiels=["a"])  # wrong
leat.blocks("2048")  # wrong
