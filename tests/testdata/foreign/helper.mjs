// An agent for a2a.mjs: it paints when it knows the colour, waits until it is canceled or told to go on, and writes a file.
import { pathToFileURL } from 'node:url'
const { Agent, Question } = await import(pathToFileURL(process.env.KIT).href)

const agent = new Agent()
let go = () => {}
agent.task(async (task) => {
  if (task.reply) return `painted ${task.text}`
  if (task.text === 'paint') return new Question('Which colour?', 'paint')
  if (task.text === 'go') {
    go()
    return 'gone'
  }
  if (task.text === 'wait') {
    task.progress('waiting')
    await new Promise((resolve, reject) => {
      go = resolve
      task.signal.addEventListener('abort', () => reject(new Error('canceled')))
    })
    return 'waited'
  }
  if (task.text === 'write') {
    await task.file('table.csv', 'a,b\n1,2\n')
    return 'written'
  }
  return task.text.toUpperCase()
})
await agent.run()
