"""Writes FOLDER/LANGUAGE.txt with the translations that the programs of this system have."""

import gettext
import glob
import os
import re
import sys

LANGUAGES = "ja ko ru uk bg sr be el de fr es pt it nl sv da nb fi is ca pl cs sk hu ro hr sl tr et lt lv he ar fa th".split()
LOCALES = {"zh-hans": ["zh_CN"], "zh-hant": ["zh_TW", "zh_HK"], "pt": ["pt", "pt_BR"]}
MARKUP = re.compile(r"%[-+ #0-9.*$]*[a-z]+|<[^>]*>|&[a-z]+;")


def translations(locale):
    for path in sorted(glob.glob(f"/usr/share/locale/{locale}/LC_MESSAGES/*.mo")):
        with open(path, "rb") as file:
            try:
                catalog = gettext.GNUTranslations(file)._catalog
            except (OSError, UnicodeDecodeError):
                continue
        for key, text in catalog.items():
            original = key[0] if isinstance(key, tuple) else key
            if original and isinstance(text, str) and text != original:
                yield MARKUP.sub("", text).replace("_", "").replace("&", "")


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: texts.py FOLDER")
    os.makedirs(sys.argv[1], exist_ok=True)
    for language in ["zh-hans", "zh-hant", *LANGUAGES]:
        with open(os.path.join(sys.argv[1], language + ".txt"), "w", encoding="utf-8") as out:
            for locale in LOCALES.get(language, [language]):
                out.writelines(text + "\n" for text in translations(locale))


main()
