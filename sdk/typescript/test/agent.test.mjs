// Tests of the package alone: each runs an agent as Cortex would, and speaks the protocol with it. npm test
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { test } from 'node:test'

const sdk = new URL('../cortex-agent.mjs', import.meta.url).href

// run starts an agent with some code.
function run(t, code, env = { CORTEX_PROTOCOL: 'jsonl 1' }) {
  const all = `import { Agent, AskFailed, Canceled, Question, Rejected } from '${sdk}'\nconst agent = new Agent()\n${code}\nawait agent.run()`
  const child = spawn(process.execPath, ['--input-type=module', '-e', all], { env: { ...process.env, ...env } })
  t.after(() => child.kill('SIGKILL'))
  let log = ''
  child.stderr.on('data', (b) => (log += b))
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const program = {
    log: () => log,
    ended: new Promise((done) => child.on('close', done)),
    end: () => child.stdin.end(),
    raw: (text) => child.stdin.write(text + '\n'),
    give: (line) => child.stdin.write(JSON.stringify({ type: 'task', version: 1, id: 't1', delivery: 1, ...line }) + '\n'),
    line: async () => JSON.parse((await lines.next()).value),
    // lines gives a task, and returns the lines up to its end.
    lines: async (task) => {
      program.give(task)
      const all = [await program.line()]
      while (!['result', 'error', 'rejected', 'input_required'].includes(all.at(-1).type)) all.push(await program.line())
      return all
    },
  }
  return program
}

for (const [body, want] of Object.entries({
  'return task.text.toUpperCase()': { type: 'result', text: 'ABC' },
  return: { type: 'result' },
  'return { n: 1 }': { type: 'result', data: { n: 1 } },
  "return new Question('which?', { n: 1 })": { type: 'input_required', text: 'which?', state: { n: 1 } },
  "return new Question('which?')": { type: 'input_required', text: 'which?' },
  "throw new Rejected('no')": { type: 'rejected', text: 'no' },
  "throw new Error('bad')": { type: 'error', text: 'bad' },
  "throw 'bad'": { type: 'error', text: 'bad' },
  'return 1n': { type: 'error', text: 'the result cannot be sent: Do not know how to serialize a BigInt' },
  "return 'x'.repeat(1 << 20)": { type: 'error', text: 'the result cannot be sent: it has 1048614 bytes, and at most 1048576 can be said at once: give it as a file' },
  "return `${task.reply} ${task.state.n} ${task.history[0].question} ${task.delivery} ${task.deadline.getTime()}`": { type: 'result', text: 'true 1 b 2 0' },
})) {
  test(body, async (t) => {
    const given = { text: 'abc', reply: true, state: { n: 1 }, history: [{ text: 'a', question: 'b' }], delivery: 2, deadline: '1970-01-01T00:00:00Z' }
    assert.deepEqual(await run(t, `agent.task(async (task) => { ${body} })`).lines(given), [{ ...want, id: 't1' }])
  })
}

for (const handler of [
  "function* () { yield 'a'; yield 'b' }",
  "async function* () { yield 'a'; await null; yield 'b' }",
  "async (task) => { task.stream('a'); await task.stream('b') }",
]) {
  test(handler, async (t) => {
    const lines = await run(t, `agent.task(${handler})`).lines()
    assert.deepEqual(lines.map((l) => [l.type, l.text]), [['text', 'a'], ['text', 'b'], ['result', undefined]])
  })
}

test('long text goes in pieces, and no character is broken', async (t) => {
  const lines = await run(t, "agent.task(async (task) => { await task.stream('x' + '😀'.repeat(120_000)) })").lines()
  assert.equal(lines.map((l) => l.text ?? '').join(''), 'x' + '😀'.repeat(120_000))
})

test('skills', async (t) => {
  const code = "agent.task('a', () => 'one').task('b', () => 'two')"
  assert.equal((await run(t, code).lines({ skill: 'b' }))[0].text, 'two')
  assert.deepEqual((await run(t, code).lines({ skill: 'c' }))[0], { type: 'rejected', text: 'there is no skill "c": the skills are a, b', id: 't1' })
})

test('outputs', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'sdk-'))
  t.after(() => rm(folder, { recursive: true }))
  const code = `agent.task(async (task) => {
    task.progress('1 of 2')
    task.artifact('t', { data: [1], description: 'd' })
    task.artifact('s', { text: '', append: true })
    await task.file('a/b.txt', 'text', { mediaType: 'x/y' })
    return String(task.input.n)
  })`
  assert.deepEqual(await run(t, code).lines({ folder, input: { n: 5 } }), [
    { type: 'progress', id: 't1', text: '1 of 2' },
    { type: 'artifact', id: 't1', name: 't', data: [1], description: 'd' },
    { type: 'artifact', id: 't1', name: 's', text: '', append: true },
    { type: 'file', id: 't1', path: join(folder, 'a', 'b.txt'), name: 'b.txt', media_type: 'x/y' },
    { type: 'result', id: 't1', text: '5' },
  ])
  assert.equal(await readFile(join(folder, 'a', 'b.txt'), 'utf8'), 'text')
})

test('ask', async (t) => {
  const program = run(t, `agent.task(async (task) => {
    const first = await task.ask('how many?', { agent: 'counter', skill: 'count', input: { n: 1 } })
    try { await task.ask('again?') } catch (e) {
      return first.text + first.data.n + first.files[0].name + (e instanceof AskFailed) + e.message
    }
  })`)
  program.give()
  let asked = await program.line()
  assert.deepEqual(asked, { type: 'ask', id: 't1', ask: asked.ask, text: 'how many?', agent: 'counter', skill: 'count', input: { n: 1 } })
  program.give({ type: 'reply', ask: asked.ask, text: 'two', data: { n: 2 }, files: [{ name: 'f', size: 1, path: '/f' }] })
  asked = await program.line()
  program.give({ type: 'reply', ask: asked.ask, failed: true, text: 'nobody knows' })
  assert.deepEqual(await program.line(), { type: 'result', id: 't1', text: 'two2ftruenobody knows' })
})

for (const waits of ["await task.ask('x')", "await new Promise((_, no) => task.signal.addEventListener('abort', () => no(task.signal.reason)))", 'for (;;) await new Promise(setImmediate).then(() => task.progress(`x`))']) {
  test('cancel: ' + waits, async (t) => {
    const program = run(t, `agent.task(async (task) => { task.ask('not awaited'); await task.stream('begun'); ${waits} })`)
    program.give()
    let line = await program.line()
    while (line.type !== 'text') line = await program.line()
    program.give({ type: 'cancel', reason: 'enough' })
    while (!['error', 'result'].includes(line.type)) line = await program.line()
    assert.deepEqual(line, { type: 'error', text: 'canceled', id: 't1' })
    program.give({ id: 't2', type: 'cancel' })
    program.end()
    assert.equal(await program.ended, 0)
  })
}

for (const [kind, pause] of [['async function*', 'await new Promise(setImmediate)'], ['function*', '']]) {
  test('a canceled generator is ended: ' + kind, async (t) => {
    const program = run(t, `agent.task(${kind} (task) {
      try { for (;;) { yield 'x'; ${pause} } } finally { console.log('put away') }
    })`)
    program.give()
    let line = await program.line()
    program.give({ type: 'cancel', reason: 'enough' })
    while (line.type === 'text') line = await program.line()
    assert.deepEqual(line, { type: 'error', text: 'canceled', id: 't1' })
    program.end()
    await program.ended
    assert.equal(program.log(), 'put away\n')
  })
}

test('lines that cannot be handled', async (t) => {
  const program = run(t, "agent.task((task) => task.text)")
  program.raw('{"type":"task","version":1,"id":"a\\"b","input":nonsense}')
  program.raw('{"type":"task","version":1,"id":"c","input":nonsense}')
  program.raw('nonsense')
  program.raw('null')
  program.give({ id: 'behind', text: 'still here' })
  for (const id of ['a"b', 'c']) {
    const line = await program.line()
    assert.equal(line.id, id)
    assert.match(line.text, /^the agent cannot handle what it was given: /)
  }
  assert.deepEqual(await program.line(), { type: 'result', text: 'still here', id: 'behind' })
})

test('many at once', async (t) => {
  const program = run(t, "agent.task(async (task) => { await task.ask('wait'); return task.text })")
  for (let n = 0; n < 20; n++) program.give({ id: `t${n}`, text: String(n) })
  const asks = []
  for (let n = 0; n < 20; n++) asks.push(await program.line())
  for (const { id, ask } of asks.reverse()) program.give({ type: 'reply', id, ask })
  const got = []
  for (let n = 0; n < 20; n++) got.push(Number((await program.line()).text))
  assert.deepEqual(got.sort((a, b) => a - b), [...Array(20).keys()])
})

test('what is printed is the log, and what is unknown is ignored', async (t) => {
  const program = run(t, "console.log('early'); agent.task(() => { console.log('hello'); return 'done' })")
  assert.equal((await program.lines({ future: { a: 1 } })).at(-1).text, 'done')
  program.give({ type: 'from the future' })
  program.end()
  assert.equal(await program.ended, 0)
  assert.equal(program.log(), 'early\nhello\n')
})

test('without Cortex', async (t) => {
  const program = run(t, '', { CORTEX_PROTOCOL: '' })
  assert.equal(await program.ended, 2)
  assert.match(program.log(), /this is an agent, which Cortex runs: cortex agent exec/)
})
