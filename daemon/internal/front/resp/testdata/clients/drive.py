"""Gives the commands on the standard input to a server by redis-py, and answers as JSON; then uses
the methods that programs use. Arguments: host, port."""

import json
import sys

import redis


def plain(answer):
    if isinstance(answer, Exception):
        return {"error": str(answer)}
    if isinstance(answer, bytes):
        return answer.decode()
    if isinstance(answer, list):
        return [plain(a) for a in answer]
    return answer


def table(host, port):
    connection = redis.Connection(host=host, port=port)
    answers = []
    for command in json.load(sys.stdin):
        connection.send_command(*command)
        try:
            answers.append(plain(connection.read_response()))
        except redis.RedisError as err:
            answers.append(plain(err))
    json.dump(answers, sys.stdout)
    connection.disconnect()


def methods(host, port):
    r = redis.Redis(host=host, port=port, decode_responses=True)
    bf = r.bf()
    assert r.ping()
    assert bf.create("py", 0.001, 1000, expansion=3)
    assert bf.add("py", "a") == 1 and bf.add("py", "a") == 0
    assert bf.madd("py", "a", "b") == [0, 1]
    assert bf.insert("py2", ["x", "x"], capacity=50, error=0.1) == [1, 0]
    assert bf.exists("py", "a") == 1 and bf.mexists("py", "b", "z") == [1, 0]
    info = bf.info("py")
    assert (info.capacity, info.filterNum, info.insertedNum, info.expansionRate) == (1000, 1, 2, 3), vars(info)
    try:
        bf.create("py", 0.001, 1000)
        raise AssertionError("made twice")
    except redis.ResponseError as err:
        assert str(err) == "item exists", err

    raw = redis.Redis(host=host, port=port)  # a dump is bytes
    at = 0
    while True:
        at, data = raw.execute_command("BF.SCANDUMP", "py", at)  # the method refuses beside hiredis
        if at == 0:
            break
        assert raw.bf().loadchunk("py3", at, data)
    assert bf.mexists("py3", "a", "b", "z") == [1, 1, 0]

    assert r.sadd("pyset", "a", "b", "a") == 2 and r.sadd("pyset", "a") == 0
    assert r.sismember("pyset", "a") and not r.sismember("pyset", "z")
    assert r.smismember("pyset", "a", "z") == [1, 0]
    assert r.srem("pyset", "a", "z") == 1 and r.scard("pyset") == 1
    try:
        r.sadd("py", "a")
        raise AssertionError("another kind")
    except redis.ResponseError as err:
        assert str(err).startswith("WRONGTYPE"), err

    pipe = r.pipeline(transaction=False)
    for i in range(1000):
        pipe.execute_command("BF.ADD", "py", "item-%d" % (i // 2))
    fresh = pipe.execute()
    assert len(fresh) == 1000 and not any(fresh[1::2]) and sum(fresh) > 480, sum(fresh)

    try:
        with r.pipeline() as pipe:  # a transaction, which is redis-py's default
            pipe.sadd("pyset", "m").sadd("pyset", "n").execute()
        raise AssertionError("a transaction")
    except redis.ResponseError as err:
        assert "no transactions" in str(err), err
    assert r.smismember("pyset", "m", "n") == [0, 0]

    name, items, held = r.execute_command("UF.RESERVE", "pyset", 60, "b", "c")
    assert items == ["c"] and held == 0 and len(name) == 32, (name, items, held)
    assert r.execute_command("UF.COMMIT", "pyset", name) == [1, []]
    assert sorted(r.scan_iter(match="py*")) == ["py", "py2", "py3", "pyset"]
    assert r.delete("py2", "nope") == 1 and r.type("pyset") == "set" and r.exists("py2") == 0
    r.close()


table(sys.argv[1], int(sys.argv[2]))
methods(sys.argv[1], int(sys.argv[2]))
