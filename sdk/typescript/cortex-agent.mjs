// Agents for Cortex in JavaScript, with types for TypeScript in cortex-agent.d.mts, which says what each name is for.

import { mkdir, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { createInterface } from 'node:readline'

const maxLine = 1 << 20 // bytes
const piece = 100_000 // characters of streamed text in a line
const about = /^\s*\{\s*"type"\s*:\s*"\w+"\s*,\s*(?:"version"\s*:\s*\d+\s*,\s*)?"id"\s*:\s*("(?:[^"\\]|\\.)*")/ // which task a line is about

// Standard output is taken for the protocol before anybody prints.
const spoken = (process.env.CORTEX_PROTOCOL ?? '').split(' ')[0] === 'jsonl'
const write = process.stdout.write.bind(process.stdout)
if (spoken) {
  delete process.env.CORTEX_PROTOCOL
  process.stdout.write = process.stderr.write.bind(process.stderr)
}

export class Rejected extends Error {}
export class AskFailed extends Error {}
export class Canceled extends Error {}

export class Question {
  constructor(text, state) {
    this.text = text
    this.state = state
  }
}

export class Task {
  #send
  #asks = new Map()
  #number = 0
  #abort = new AbortController()

  constructor(line, send) {
    this.id = line.id
    this.context = line.context ?? ''
    this.skill = line.skill ?? ''
    this.text = line.text ?? ''
    this.input = line.input
    this.parts = line.parts ?? []
    this.files = line.files ?? []
    this.folder = line.folder ?? '.'
    this.deadline = line.deadline ? new Date(line.deadline) : undefined
    this.delivery = line.delivery ?? 1
    this.reply = line.reply ?? false
    this.state = line.state
    this.history = line.history ?? []
    this.traceparent = line.traceparent ?? ''
    this.tracestate = line.tracestate ?? ''
    this.signal = this.#abort.signal
    this.#send = send
  }

  #say(type, fields) {
    this.signal.throwIfAborted()
    return this.#send({ type, id: this.id, ...fields })
  }

  progress(text) {
    this.#say('progress', { text: String(text) })
  }

  async stream(text) {
    text = String(text)
    for (let i = 0, n; i < text.length; i = n) {
      n = i + piece
      if (n < text.length && text.charCodeAt(n - 1) >> 10 === 0x36) n-- // not within a pair
      await this.#say('text', { text: text.slice(i, n) })
    }
  }

  artifact(name, { text, data, description, append } = {}) {
    this.#say('artifact', { name, text, data, description, append })
  }

  async file(name, content, { mediaType } = {}) {
    const path = join(this.folder, name)
    if (content !== undefined) {
      await mkdir(dirname(path), { recursive: true })
      await writeFile(path, content)
    }
    this.#say('file', { path, name: basename(path), media_type: mediaType })
    return path
  }

  ask(text, { agent, skill, input } = {}) {
    const ask = String(++this.#number)
    return new Promise((resolve, reject) => {
      this.#asks.set(ask, { resolve, reject })
      this.#say('ask', { ask, text: text ?? '', agent, skill, input })
    })
  }

  /** @internal */
  replied(line) {
    const waiting = this.#asks.get(line.ask)
    this.#asks.delete(line.ask)
    if (line.failed) waiting?.reject(new AskFailed(line.text ?? ''))
    else waiting?.resolve({ text: line.text ?? '', data: line.data, files: line.files ?? [] })
  }

  /** @internal */
  cancel(reason) {
    const why = new Canceled(reason || 'the task was canceled')
    this.#abort.abort(why)
    for (const { reject } of this.#asks.values()) reject(why)
    this.#asks.clear()
  }
}

export class Agent {
  #handlers = new Map()
  #tasks = new Map()

  task(skill, handler) {
    if (typeof skill === 'function') this.#handlers.set('', skill)
    else this.#handlers.set(skill, handler)
    return this
  }

  async run() {
    if (!spoken) {
      const me = basename(process.argv[1] ?? 'agent.mjs')
      console.error(`this is an agent, which Cortex runs: cortex agent exec --card card.yaml --protocol jsonl --keep -- node ${me}`)
      process.exit(2)
    }
    process.on('unhandledRejection', (e) => e instanceof Canceled || console.error(e)) // of one task, which must not end the others
    process.stdout.on('error', () => process.exit(1)) // nobody listens
    for await (const text of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
      try {
        this.#take(JSON.parse(text))
      } catch (e) {
        this.#refuse(text, e)
      }
    }
    const left = [...this.#tasks.values()]
    for (const { task } of left) task.cancel('the agent is stopping')
    await Promise.race([Promise.all(left.map((one) => one.done)), new Promise((done) => setTimeout(done, 1000))])
    write('', () => process.exit(0))
  }

  #take(line) {
    if (line.type === 'task') this.#begin(line)
    else if (line.type === 'cancel') this.#tasks.get(line.id)?.task.cancel(line.reason)
    else if (line.type === 'reply') this.#tasks.get(line.id)?.task.replied(line)
  }

  // #refuse fails the task of a line that cannot be handled; the others go on.
  #refuse(text, why) {
    console.error(`a line cannot be handled: ${why}: ${text.slice(0, 200)}`)
    const id = about.exec(text)?.[1]
    if (id === undefined) return
    this.#send({ type: 'error', id: JSON.parse(id), text: `the agent cannot handle what it was given: ${why.message}`.slice(0, 4000) })
    this.#tasks.get(JSON.parse(id))?.task.cancel('it has failed')
  }

  #begin(line) {
    const task = new Task(line, (l) => this.#send(l))
    this.#tasks.set(task.id, { task, done: this.#work(task) })
  }

  async #work(task) {
    let end
    try {
      await null // so that the task is known
      end = ending(await this.#do(task))
    } catch (e) {
      if (e instanceof Rejected) end = { type: 'rejected', text: e.message }
      else if (task.signal.aborted) end = { type: 'error', text: 'canceled' }
      else {
        console.error(e)
        end = { type: 'error', text: String(e?.message || e) }
      }
    }
    this.#tasks.delete(task.id)
    try {
      await this.#send({ ...end, id: task.id })
    } catch (e) {
      await this.#send({ type: 'error', id: task.id, text: `the result cannot be sent: ${e.message}` })
    }
  }

  async #do(task) {
    const only = !task.skill && this.#handlers.size === 1 ? [...this.#handlers.values()][0] : undefined
    const handler = this.#handlers.get(task.skill) ?? this.#handlers.get('') ?? only
    if (!handler) throw new Rejected(`there is no skill "${task.skill}": the skills are ${[...this.#handlers.keys()].join(', ')}`)
    const given = handler(task)
    if (typeof given?.next !== 'function') return given
    try {
      for (;;) {
        const { value, done } = await given.next()
        if (done) return value
        await task.stream(value)
      }
    } finally {
      await given.return?.() // runs its finally if the task is canceled
    }
  }

  // #send writes a line, and waits when Cortex does not read fast enough.
  #send(line) {
    const text = JSON.stringify(line) + '\n'
    const size = Buffer.byteLength(text)
    if (size > maxLine) throw new Error(`it has ${size} bytes, and at most ${maxLine} can be said at once: give it as a file`)
    if (write(text) || process.stdout.writableLength < maxLine) return undefined
    return new Promise((drained) => process.stdout.once('drain', drained))
  }
}

// ending returns the line that ends a task with what its handler returned.
function ending(result) {
  if (result instanceof Question) return { type: 'input_required', text: result.text, state: result.state }
  if (result === undefined || result === null) return { type: 'result' }
  if (typeof result === 'string') return { type: 'result', text: result }
  return { type: 'result', data: result }
}
