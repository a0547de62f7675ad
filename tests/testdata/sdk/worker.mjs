#!/usr/bin/env node
// @ts-check
import { readFile, writeFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { Agent, AskFailed, Question, Rejected } from '../../../sdk/typescript/cortex-agent.mjs'

await writeFile(String(process.env.WORKER_PID), String(process.pid))
console.log('print goes to the log')
const agent = new Agent()

/** @typedef {{ numbers: number[], label?: string, more?: Record<string, number> }} Sum */
/** @typedef {{ total: number, label: string }} Total */

agent.task(async (task) => {
  const [word, ...words] = task.text.split(' ')
  const rest = words.join(' ')
  if (task.reply) return `${task.text} for ${task.state.about} after ${task.history[0].question}`
  switch (word) {
    case 'stream':
      task.progress('working')
      for (const piece of ['to ', 'be ', 'or']) await task.stream(piece)
      task.artifact('table', { data: [1, 'zwei'], description: 'A table' })
      await task.file('plot.txt', 'ein Plot: é\n')
      return
    case 'read':
      return (await Promise.all(task.files.map(async (f) => `${f.name} ${f.type} ${(await readFile(f.path, 'utf8')).trim()}`))).join(', ')
    case 'question':
      return new Question('Which one?', { about: rest })
    case 'refuse':
      throw new Rejected('not my work')
    case 'crash':
      throw new TypeError('it is broken')
    case 'ask':
      await task.ask('hello', { agent: 'nobody' }).catch((e) => {
        if (!(e instanceof AskFailed)) throw e
        console.log('nobody answers:', e.message)
      })
      return `it says ${(await task.ask(rest, { agent: 'agent_echo' })).text}`
    case 'long':
      return 'x'.repeat(2 << 20)
    case 'wait':
      console.log('it waits for it')
      try {
        return await sleep(3_600_000, undefined, { signal: task.signal })
      } catch (e) {
        console.log('canceled:', task.signal.reason.message)
        throw e
      }
  }
  throw new Rejected('what?')
})

/** @type {import('../../../sdk/typescript/cortex-agent.mjs').Handler<Sum, Total>} */
const add = ({ input }) => {
  if (!Array.isArray(input?.numbers)) throw new Rejected('the input: numbers must be a list')
  const all = [...input.numbers, ...Object.values(input.more ?? {})]
  return { total: all.reduce((a, b) => a + b, 0), label: input.label ?? 'none' }
}
agent.task('add', add)

agent.task('slow', async function* (task) {
  yield 'line '
  await sleep(50)
  yield task.text.split(' ').at(-1) ?? ''
})

await agent.run()
