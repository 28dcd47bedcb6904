"""A site for crawls, that is no hindrance: prints its address and serves until it is killed.

Every page has LINKS links, half of them to pages that many others link to.
"""

from __future__ import annotations

import asyncio

PAGES, LINKS = 800, 40


def page(number: int) -> bytes:
    """An answer."""
    near = [(number + i + 1) % PAGES for i in range(LINKS // 2)]
    far = [(number * 7 + i * 101) % PAGES for i in range(LINKS // 2)]
    body = "".join(f'<a href="/{to}">{to}</a>' for to in near + far).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A connection."""
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            writer.write(page(int(head.split(b" ", 2)[1][1:])))
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def main() -> None:
    """The command."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print("http://127.0.0.1:%d" % server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
