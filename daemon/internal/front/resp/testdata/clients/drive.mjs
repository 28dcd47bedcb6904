// Gives the commands on the standard input to a server by ioredis or node-redis, and answers as JSON;
// then uses the methods that programs use. Arguments: the client, host, port, version of the protocol.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { Redis } from 'ioredis'
import { createClient, RESP_TYPES } from '@redis/client'
import bloom from '@redis/bloom'

const [, , name, host, port, proto] = process.argv
const commands = JSON.parse(readFileSync(0, 'utf8'))

const plain = answer => {
  if (answer instanceof Error) return { error: answer.message }
  if (Array.isArray(answer)) return answer.map(plain)
  if (answer !== null && typeof answer === 'object') return { map: Object.entries(answer).map(([k, v]) => [k, plain(v)]) }
  return answer
}

const table = async give => {
  const answers = []
  for (const command of commands) answers.push(plain(await give(command).catch(err => err)))
  console.log(JSON.stringify(answers))
}

if (name === 'ioredis') {
  const connect = () => new Redis({ host, port: Number(port), retryStrategy: null })
  const first = connect() // the table ends with QUIT
  await table(command => first.call(...command))
  const r = connect()
  assert.equal(await r.sadd('js', 'a', 'b', 'a'), 2)
  assert.deepEqual([await r.sismember('js', 'a'), await r.smismember('js', 'a', 'z'), await r.scard('js'), await r.srem('js', 'b', 'z')], [1, [1, 0], 2, 1])
  const pipe = r.pipeline()
  for (let i = 0; i < 1000; i++) pipe.call('BF.ADD', 'jsb', 'item-' + (i >> 1))
  const fresh = (await pipe.exec()).map(([err, is]) => { assert.equal(err, null); return is })
  assert.ok(fresh.length === 1000 && fresh.every((is, i) => i % 2 === 0 || is === 0) && fresh.filter(is => is === 1).length > 480)
  await assert.rejects(r.call('BF.ADD', 'js', 'x'), /^ReplyError: WRONGTYPE/)
  for (let at = '0'; ;) {
    const [next, data] = await r.callBuffer('BF.SCANDUMP', 'jsb', at)
    if (String(next) === '0') break
    at = String(next)
    assert.equal(await r.call('BF.LOADCHUNK', 'jsc', at, data), 'OK')
  }
  assert.deepEqual(await r.call('BF.MEXISTS', 'jsc', 'item-0', 'item-499', 'nope'), [1, 1, 0])
  const [reservation, items, held] = await r.call('UF.RESERVE', 'js', 60, 'a', 'c')
  assert.deepEqual([items, held, await r.call('UF.COMMIT', 'js', reservation)], [['c'], 0, [1, []]])
  const names = []
  for await (const page of r.scanStream({ match: 'js*' })) names.push(...page)
  assert.deepEqual(names.sort(), ['js', 'jsb', 'jsc'])
  await r.quit()
} else {
  const connect = async onError => {
    const r = createClient({ socket: { host, port: Number(port), reconnectStrategy: false }, RESP: Number(proto), modules: { bf: bloom.default?.bf ?? bloom.bf } })
    r.on('error', onError)
    return r.connect()
  }
  const first = await connect(() => {}) // the table ends with QUIT
  await table(command => first.sendCommand(command))
  const r = await connect(err => { throw err })
  const key = 'node' + proto
  assert.equal(await r.bf.reserve(key, 0.001, 1000, { EXPANSION: 3 }), 'OK')
  assert.deepEqual([await r.bf.add(key, 'a'), await r.bf.add(key, 'a'), await r.bf.mAdd(key, ['a', 'b'])], [true, false, [false, true]])
  assert.deepEqual(await r.bf.insert(key + 'i', ['x', 'x'], { CAPACITY: 50, ERROR: 0.1 }), [true, false])
  assert.deepEqual([await r.bf.exists(key, 'a'), await r.bf.mExists(key, ['b', 'z']), await r.bf.card(key)], [true, [true, false], 2])
  const info = await r.bf.info(key)
  assert.deepEqual([info.Capacity, info['Number of filters'], info['Number of items inserted'], info['Expansion rate']], [1000, 1, 2, 3])
  const raw = r.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer }) // a dump is bytes
  for (let iterator = 0; ;) {
    const part = await raw.bf.scanDump(key, iterator)
    if (part.iterator === 0) break
    iterator = part.iterator
    assert.equal(String(await raw.bf.loadChunk(key + 'c', iterator, part.chunk)), 'OK')
  }
  assert.deepEqual(await r.bf.mExists(key + 'c', ['a', 'b', 'z']), [true, true, false])
  assert.deepEqual([await r.sAdd(key + 's', ['a', 'b', 'a']), await r.sIsMember(key + 's', 'a'), await r.smIsMember(key + 's', ['a', 'z']), await r.sCard(key + 's')], [2, 1, [1, 0], 2])
  const names = []
  for await (const page of r.scanIterator({ MATCH: key + '*' })) names.push(...page)
  assert.deepEqual(names.sort(), [key, key + 'c', key + 'i', key + 's'])
  await assert.rejects(r.bf.add(key + 's', 'x'), /WRONGTYPE/)
  await r.close()
}
