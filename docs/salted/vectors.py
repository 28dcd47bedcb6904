#!/usr/bin/env python3
"""Prints vectors.json: where items are in a salted-hash Bloom filter of pybloom's kind.

Written from the description in ../salted.md with the standard library only.
"""
import hashlib
import json
import math
import struct


def shape(capacity, error_rate):
    slices = math.ceil(math.log2(1 / error_rate))
    bits = math.ceil(capacity * abs(math.log(error_rate)) / (slices * math.log(2) ** 2))
    return slices, bits


def places(key, slices, bits):
    code, size = ("Q", 8) if bits >= 1 << 31 else ("I", 4) if bits >= 1 << 15 else ("H", 2)
    need = 8 * slices * size
    name = next(n for n, most in (("md5", 128), ("sha1", 160), ("sha256", 256), ("sha384", 384), ("sha512", 1 << 30)) if need <= most)
    new = getattr(hashlib, name)
    form = "<" + code * (new().digest_size // size)
    found, number = [], 0
    while len(found) < slices:
        hashed = new(new(struct.pack("<I", number)).digest() + key)
        found += [value % bits for value in struct.unpack(form, hashed.digest())]
        number += 1
    return name, found[:slices]


filters = []
for capacity, error_rate in ((100, 0.1), (1000, 0.001), (1_000_000, 0.0001), (150_000_000, 0.0001), (2_000_000_000, 0.01)):
    slices, bits = shape(capacity, error_rate)
    items = {}
    for item in ("a", "https://example.com/", "https://example.com/?q=été", "你好"):
        name, items[item] = places(item.encode(), slices, bits)
    filters.append({"capacity": capacity, "error_rate": error_rate, "slices": slices, "bits_per_slice": bits, "hash": name, "items": items})
print(json.dumps(filters, indent=1, ensure_ascii=True))
