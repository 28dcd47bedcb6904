#!/usr/bin/env python3
"""Prints vectors.json: fingerprints as the Python module simhash makes them.

That module's documentation makes the features of a text with get_features below; its
value is the majority of the low 64 bits of their MD5. Here both are written down again
with the standard library only, so that the vectors come from another program.
"""
import hashlib
import json
import random
import re


def get_features(text):
    text = re.sub(r"[^\w]+", "", text.lower())
    return [text[i : i + 3] for i in range(max(len(text) - 2, 1))]


def simhash(features):
    votes = [0] * 64
    for feature in features:
        value = int(hashlib.md5(feature.encode()).hexdigest(), 16)
        for i in range(64):
            votes[i] += 1 if value >> i & 1 else -1
    return sum(1 << i for i in range(64) if votes[i] > 0)


random.seed(1)
texts = [
    "How are you? I am fine. Thanks.",
    "How are u? I am fine.     Thanks.",
    "How r you?I    am fine. Thanks.",
    "This is a simhash test.",
    "",
    " \t\n",
    "a",
    "ab",
    "_a_",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "你好，世界！　　呼噜。",
    "你好　世界　呼噜",
    "안녕하세요 세계",
    "こんにちは、世界ー",
    "Привет, МИР!",
    "ΟΔΥΣΣΕΥΣ και ΣΊΣΥΦΟΣ, Σ.",
    "İstanbul IĞDIR ıi",
    "STRASSE Straße ẞ ﬁn ǅ",
    "x² + ½ = Ⅷ ⑧ 一二三 ٣४",
    "e\u0301te\u0301 \u0939\u093f\u0928\u094d\u0926\u0940",
    "tabs\tand\u00a0spaces\u200band\u2060joiners \U0001f600 emoji",
    "100% of <b>HTML</b> &amp; signs: @#$^*()-=+[]{};'\\|,./?",
]
alphabet = "abcdefghijklmnopqrstuvwxyzABCDEF 0123456789.,äöüßñçéèλμπσΣжщя漢字仮名ㄱㅏ_-"
texts += ["".join(random.choices(alphabet, k=random.randrange(1, 3000))) for _ in range(40)]
print(json.dumps([{"text": t, "md5": "%016x" % simhash(get_features(t))} for t in texts], ensure_ascii=True, indent=0))
