"""The client for asyncio."""

from __future__ import annotations

import asyncio
import threading
import unittest
from datetime import timedelta
from typing import Any, AsyncIterator

from crawlerfilter import AsyncFilterAPIClient, FilterAPIClient, FilterError, InDoubtError, ItemError, SettingsError, UnavailableError

from .daemon import Daemon, free_port
from .proxy import CUT_ANSWER, HOLD, Proxy


class AsyncTest(unittest.IsolatedAsyncioTestCase):
    daemon: Daemon

    @classmethod
    def setUpClass(cls) -> None:
        cls.daemon = Daemon(cls.addClassCleanup)

    def client(self, **settings: Any) -> AsyncFilterAPIClient:
        client = AsyncFilterAPIClient(**{"url": self.daemon.url, **settings})
        self.addAsyncCleanup(client.close)
        return client

    async def test_calls(self) -> None:
        client = self.client()
        await client.ready()
        made = await client.create_filter("calls", capacity=1000)
        self.assertEqual(await client.filter("calls", ["a", "b", "a"]), ["a", "b"])
        self.assertEqual(await client.add_many("calls", ["b", "c", "c"]), [False, True, False])
        self.assertEqual([await client.add("calls", "d"), await client.add("calls", "d")], [True, False])
        self.assertEqual(await client.check("calls", ["a", "z"]), [False, True])
        self.assertEqual((await client.filter_info("calls"))["id"], made["id"])
        await client.create_filter("calls2", like="calls")
        self.assertEqual((await client.merge_filter("calls", "calls2"))["name"], "calls2")
        self.assertEqual(await client.check("calls2", ["a", "z"]), [False, True])
        await client.create_filter("texts", kind="simhash", distance=1)
        near = await client.near("texts", [("a", "The same text"), ("b", "the SAME text!")], limit=1)
        self.assertEqual([(one["new"], one["near"]) for one in near], [(True, []), (False, [{"id": "a", "distance": 0}])])
        self.assertIn("calls", [f["name"] for f in await client.filters()])
        with self.assertRaises(SettingsError):
            await client.drop_filter("calls")
        self.assertEqual((await client.clear_filter("calls", confirm="calls"))["id"], made["id"])
        self.assertEqual(await client.filter("calls", ["a"]), ["a"])
        await client.drop_filter("calls", confirm="calls")
        with self.assertRaises(FilterError) as gone:
            await client.filter("calls", ["a"])
        self.assertEqual(gone.exception.error_code, "unknown_filter")

    async def test_reserve(self) -> None:
        client = self.client()
        await client.create_filter("work", kind="exact")
        mine = await client.reserve("work", ["a", "b", "c"], 60)
        other = await client.reserve("work", ["c", "d"], timedelta(minutes=1))
        self.assertEqual((mine["uri_list"], other["uri_list"], other["reserved"]), (["a", "b", "c"], ["d"], 1))
        self.assertEqual(await client.commit("work", mine["reservation"], ["a", "d"]), {"done": 1, "lost": ["d"], "lost_total": 1})
        self.assertEqual(await client.release("work", mine["reservation"], ["b"]), {"done": 1, "lost": [], "lost_total": 0})
        self.assertEqual(await client.check("work", ["a", "b", "c"]), [False, True, False])
        self.assertEqual((await client.commit("work", mine["reservation"]))["done"], 2)  # a, committed before, and c
        self.assertEqual((await client.release("work", other["reservation"]))["done"], 1)
        self.assertEqual(await client.check("work", ["a", "b", "c", "d"]), [False, True, False, True])
        await client.create_filter("moments", kind="timing")
        moment = (await client.reserve("moments", ["a"], 60))["reservation"]
        for code, call in (
            ("reserve_not_supported", client.reserve("uri", ["a"], 60)),
            ("lease_invalid", client.reserve("work", ["a"], 100_000)),
            ("unknown_reservation", client.release("work", "1" * 32)),
            ("expire_missing", client.commit("moments", moment)),
        ):
            with self.subTest(code), self.assertRaises(FilterError) as caught:
                await call
            self.assertEqual(caught.exception.error_code, code)
        self.assertEqual((await client.commit("moments", moment, expire=60))["done"], 1)

    async def test_reserve_of_many_tasks(self) -> None:
        """Each item is given to one of them, and is new for one again when that gives it back."""
        client = self.client(concurrency=4)
        await client.create_filter("shares", kind="exact")
        items = [f"share {i}" for i in range(100)]
        for _ in range(2):
            given = await asyncio.gather(*(client.reserve("shares", items, 60) for _ in range(8)))
            self.assertEqual(sorted(item for one in given for item in one["uri_list"]), sorted(items))
            done = await asyncio.gather(*(client.release("shares", one["reservation"]) for one in given if one["uri_list"]))
            self.assertEqual(sum(one["done"] for one in done), 100)

    async def test_reserve_whose_answer_is_lost(self) -> None:
        """It is made again, as a commit is, and answered alike."""
        proxy = Proxy(self.addCleanup, self.daemon.port)
        client = self.client(url=proxy.url)
        await client.create_filter("doubtful", kind="exact")
        proxy.cut(CUT_ANSWER, times=1)
        mine = await client.reserve("doubtful", ["a"], 60)
        self.assertEqual((mine["uri_list"], mine["reserved"]), (["a"], 0))
        hasty = self.client(url=proxy.url, patience=0)
        proxy.cut(CUT_ANSWER, times=1)
        with self.assertRaises(InDoubtError):
            await hasty.reserve("doubtful", ["b"], 60, reservation="5" * 32)
        self.assertEqual((await client.reserve("doubtful", ["b"], 60))["reserved"], 1)
        self.assertEqual((await client.commit("doubtful", "5" * 32, ["b"]))["done"], 1)
        proxy.cut(CUT_ANSWER, times=1)
        self.assertEqual((await client.commit("doubtful", mine["reservation"]))["done"], 1)

    async def test_many_tasks(self) -> None:
        """Of equal items from many tasks one is new."""
        client = self.client(concurrency=4)
        verdicts = await asyncio.gather(*(client.add("uri", f"task {i % 100}") for i in range(400)))
        self.assertEqual(sum(verdicts), 100)
        self.assertLessEqual(client._client._connections.dialled, 4)

    async def test_stream(self) -> None:
        client = self.client(batch_items=7)

        async def source() -> AsyncIterator[str]:
            for i in range(30):
                yield f"stream {i % 20}"

        want = [f"stream {i}" for i in range(20)]
        self.assertEqual([item async for item in client.stream("ip", source())], want)
        self.assertEqual([item async for item in client.stream("uri_parse", iter(want))], want)
        with self.assertRaises(ItemError) as caught:
            [item async for item in client.stream("ip", [f"later {i}" for i in range(20)] + [None])]
        self.assertEqual((caught.exception.index, caught.exception.judged), (20, 14))
        with self.assertRaises(SettingsError):
            [item async for item in client.stream("ip", "one item")]

    async def test_cancelled_while_it_waits(self) -> None:
        """The task goes on at once, and the call is not made again."""
        daemon = Daemon(self.addCleanup, wait=False)
        client = self.client(url=daemon.url, patience=60)
        with self.assertLogs("crawlerfilter", "WARNING") as logs:
            task = asyncio.ensure_future(client.add("uri", "cancelled"))
            while not logs.output:
                await asyncio.sleep(0.01)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            await client.close()  # waits for the call's thread
        self.assertIn("urifilter: calls wait, for 60 s each at most: POST", logs.output[0])
        self.assertEqual(len(logs.output), 1)
        daemon.start()
        with FilterAPIClient(url=daemon.url) as other:
            self.assertEqual(other.check("uri", ["cancelled"]), [True])

    async def test_cancelled_on_its_way(self) -> None:
        """The next server is not asked."""
        proxy = Proxy(self.addCleanup, self.daemon.port)
        proxy.cut(HOLD, times=1)
        client = self.client(url=f"{proxy.url},{self.daemon.url}", in_doubt="new", patience=0)
        task = asyncio.ensure_future(client.add("uri", "asked once"))
        while proxy.mode == HOLD:
            await asyncio.sleep(0.01)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        proxy.hang_up()
        await client.close()  # waits for the call's thread
        with FilterAPIClient(url=self.daemon.url) as other:
            self.assertEqual(other.check("uri", ["asked once"]), [True])

    async def test_cancelled_between_batches(self) -> None:
        """The next batch is not sent."""
        client = self.client(batch_items=1)
        answered, cancelled = threading.Event(), threading.Event()
        original = client._client._connections.attempt

        def attempt(*given: Any) -> Any:
            answer = original(*given)
            answered.set()
            cancelled.wait()
            return answer

        client._client._connections.attempt = attempt  # type: ignore[method-assign]
        task = asyncio.ensure_future(client.filter("uri", ["first batch", "second batch"]))
        while not answered.is_set():
            await asyncio.sleep(0.01)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        cancelled.set()
        await client.close()
        with FilterAPIClient(url=self.daemon.url) as other:
            self.assertEqual(other.check("uri", ["first batch", "second batch"]), [False, True])

    async def test_cancelled_before_its_turn(self) -> None:
        """While another call waits for its answer, and the loop goes on."""
        proxy = Proxy(self.addCleanup, self.daemon.port)
        proxy.cut(HOLD, times=1)
        client = self.client(url=proxy.url, concurrency=1, patience=0)
        first = asyncio.ensure_future(client.check("uri", ["first"]))
        second = asyncio.ensure_future(client.add("uri", "never sent"))
        while proxy.mode == HOLD:
            await asyncio.sleep(0.01)
        second.cancel()
        await asyncio.wait([second])  # its thread pool learns of it in the loop's next round
        proxy.hang_up()
        with self.assertRaises(UnavailableError):
            await first
        self.assertTrue(second.cancelled())
        self.assertEqual(await client.check("uri", ["never sent"]), [True])

    async def test_waits_and_says_so(self) -> None:
        port = free_port()
        daemon = Daemon(self.addCleanup, wait=False)
        client = self.client(url=f"http://127.0.0.1:{port},{daemon.url}", patience=60)
        with self.assertLogs("crawlerfilter", "INFO") as logs:
            task = asyncio.ensure_future(client.add("uri", "patient"))
            while not logs.output:
                await asyncio.sleep(0.01)
            await asyncio.get_running_loop().run_in_executor(None, daemon.start)
            self.assertTrue(await task)
        self.assertEqual([record.levelname for record in logs.records], ["WARNING", "INFO"])
        self.assertIn("urifilter: back", logs.output[1])

    async def test_settings(self) -> None:
        for wrong in (0, True, 1.5):
            with self.subTest(wrong), self.assertRaises(SettingsError):
                AsyncFilterAPIClient(concurrency=wrong)  # type: ignore[arg-type]
        async with AsyncFilterAPIClient(url=self.daemon.url) as client:
            await client.ready()
        self.assertFalse([t.name for t in threading.enumerate() if t.name.startswith("crawlerfilter")])


if __name__ == "__main__":
    unittest.main()
