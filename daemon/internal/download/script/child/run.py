"""What the process that runs job code in Python does: docs/jobcode.md has the names that code finds.

It is in jail before its first line. What it says is not trusted: the engine counts for itself."""

import ast
import base64
import json
import os
import struct

MAX_MESSAGE = 32 << 20
MAX_RECORDS, MAX_EMITTED = 10_000, 16 << 20
MAX_LINKS = 10_000
MAX_LINES, MAX_LINE = 100, 1 << 10
MAX_REASON = 4 << 10


class Failed(Exception):
    """What fail raises."""

    def __init__(self, text, permanent):
        super().__init__(text)
        self.permanent = permanent


class Engine:
    """The other end of the two pipes."""

    def read_all(self, n):
        parts = []
        while n > 0:
            part = os.read(0, min(n, 1 << 20))
            if not part:
                os._exit(91)
            parts.append(part)
            n -= len(part)
        return b"".join(parts)

    def read(self):
        (n,) = struct.unpack(">I", self.read_all(4))
        message = json.loads(self.read_all(n))
        if message.get("Stop"):
            raise Failed(message["Stop"], False)
        return message

    def send(self, message):
        text = json.dumps(message, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
        if len(text) > MAX_MESSAGE:
            raise ValueError(f"message of {len(text)} bytes: want {MAX_MESSAGE} at most")
        text = struct.pack(">I", len(text)) + text
        while text:
            text = text[os.write(1, text):]

    def ask(self, **question):
        self.send({"Ask": question})
        found = self.read()["Found"]
        if found["Refused"]:
            raise ValueError(found["Refused"])
        return found


engine = Engine()


class Element:
    """One of a document."""

    def __init__(self, found):
        self._id, self.name, self.attrs = found["ID"], found["Name"], found["Attrs"] or {}

    @property
    def text(self):
        return engine.ask(Element=self._id, Member="text")["Text"]

    @property
    def html(self):
        return engine.ask(Element=self._id, Member="html")["Text"]

    def select(self, css):
        return html.select(self, css)

    def __repr__(self):
        return f"<{self.name}>"


class Page:
    """What fetch returns, or what was stored."""

    def __init__(self, found):
        self._id, self.url, self.status = found["ID"], found["URL"], found["Status"]
        self._type = found["ContentType"]
        self.headers = found["Headers"] or {}
        self.body = base64.b64decode(found["Body"] or "")
        self.records = found.get("Records") or []
        self._text = None

    @property
    def text(self):
        if self._text is None:
            self._text = engine.ask(Decode=base64.b64encode(self.body).decode(), Type=self._type)["Text"]
        return self._text

    def __repr__(self):
        return f"<page {self.url}: {self.status}>"


class html:  # noqa: N801: it is a name of code
    @staticmethod
    def select(source, css):
        if isinstance(source, Element):
            question = {"Element": source._id}
        elif isinstance(source, Page):
            question = {"Source": source.text}
        elif isinstance(source, str):
            question = {"Source": source}
        else:
            raise TypeError(f"html.select: source: got {type(source).__name__}, want a text, a page or an element")
        return [Element(e) for e in engine.ask(CSS=css, **question)["Elements"] or []]


class Run:
    """One attempt."""

    def __init__(self, start):
        self.start = start
        self.records = self.emitted = self.links = self.lines = 0
        self.page = Page(start["Page"]) if start["Page"] else None
        self.base = ""
        if self.page:
            self.base = self.page.url
        elif start["Function"] == "download":
            self.base = start["URI"]

    def fetch(self, url, method="GET", headers=None, body="", any_status=False):
        if isinstance(body, str):
            body = body.encode()
        for name, text in (headers or {}).items():
            if not isinstance(name, str) or not isinstance(text, str):
                raise TypeError(f"fetch: headers: {name!r}: want a text for a text")
        engine.send({"Fetch": {"URL": url, "Method": method, "Headers": headers or {},
                               "Body": base64.b64encode(body).decode(), "Any": any_status}})
        page = engine.read()["Page"]
        if page["Refused"]:
            raise ValueError("fetch: " + page["Refused"])
        self.base = page["URL"]
        return Page(page)

    def emit(self, record):
        self.records += 1
        self.emitted += len(json.dumps(record, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace"))
        if self.records > MAX_RECORDS:
            raise ValueError(f"emit: more than {MAX_RECORDS} records")
        if self.emitted > MAX_EMITTED:
            raise ValueError(f"emit: more than {MAX_EMITTED} bytes of records")
        engine.send({"Emit": record})

    def follow(self, urls, base=None):
        links = [urls] if isinstance(urls, str) else list(urls)
        for link in links:
            if not isinstance(link, str):
                raise TypeError(f"follow: got {type(link).__name__}, want a text or a list of texts")
        self.links += len(links)
        if self.links > MAX_LINKS:
            raise ValueError(f"follow: more than {MAX_LINKS} links")
        if links:
            engine.send({"Follow": {"Base": self.base if base is None else base, "Links": links}})

    def log(self, *values, **_):
        self.lines += 1
        if self.lines <= MAX_LINES:
            engine.send({"Log": " ".join(str(v) for v in values)[:MAX_LINE]})

    def names(self):
        names = {"__name__": "job", "html": html, "json": json, "emit": self.emit, "follow": self.follow,
                 "log": self.log, "print": self.log, "fail": fail}
        if self.start["Function"] != "parse":
            names["fetch"] = self.fetch
        return names

    def compile(self):
        """The code, or what is wrong with it: file, line and column."""
        name, function = self.start["File"], self.start["Function"]
        try:
            tree = ast.parse(self.start["Text"], name)
            program = compile(tree, name, "exec")
        except SyntaxError as e:
            return None, f"{name}:{e.lineno or 1}:{e.offset or 1}: {e.msg}"
        except (ValueError, RecursionError, MemoryError) as e:
            return None, f"{name}: {e or type(e).__name__}"
        found = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == function]
        if not found:
            return None, f"{name}: has no function {function}: want def {function}(...): at its top level"
        a = found[-1].args
        if len(a.posonlyargs) + len(a.args) != 1 or a.vararg or a.kwarg or a.kwonlyargs:
            return None, f"{name}:{found[-1].lineno}:{found[-1].col_offset + 1}: {function} has other than one parameter"
        return program, ""

    def where(self, error):
        """The innermost line of the code that an error came from."""
        at, frames = self.start["File"], error.__traceback__
        while frames:
            if frames.tb_frame.f_code.co_filename == self.start["File"]:
                at = f"{self.start['File']}:{frames.tb_lineno}"
                for n, (_, _, column, _) in enumerate(frames.tb_frame.f_code.co_positions()):
                    if n == frames.tb_lasti // 2 and column is not None:
                        at = f"{self.start['File']}:{frames.tb_lineno}:{column + 1}"
            frames = frames.tb_next
        return at

    def do(self):
        program, wrong = self.compile()
        if wrong or self.start["Check"]:
            return {"Fault": wrong, "Permanent": True}
        function = self.start["Function"]
        try:
            names = self.names()
            exec(program, names)
            result = names[function](self.argument())
        except MemoryError as e:
            return {"Fault": self.where(e), "Memory": True}
        except BaseException as e:  # also SystemExit: the engine is to be told
            text = str(e) if isinstance(e, Failed) else f"{type(e).__name__}: {e}"
            return {"Fault": f"{self.where(e)}: {text[:MAX_REASON]}", "Permanent": isinstance(e, Failed) and e.permanent}
        if result is None:
            return {"Fault": ""}
        if function == "download" and isinstance(result, Page):
            return {"Fault": "", "Page": result._id}
        want = "a page that fetch has returned, or None" if function == "download" else "None"
        return {"Fault": f"{self.start['File']}: {function} returned a {type(result).__name__}: want {want}"}

    def argument(self):
        if self.page:
            return self.page
        what = type("task", (), {})()
        what.job, what.attempt = self.start["Job"], self.start["Attempt"]
        if self.start["Function"] == "download":
            what.uri = self.start["URI"]
        else:
            what.time = self.start["Due"]
        return what


def fail(*values, permanent=False):
    raise Failed(" ".join(str(v) for v in values) or "fail() was called", permanent)


engine.send({"End": Run(engine.read()["Start"]).do()})
