#!/usr/bin/env node
// @ts-check
// An agent that writes the table of contents of Markdown files, and asks for how many levels if the task does not say.
//
// cortex agent exec --card sdk/typescript/examples/card.yaml --protocol jsonl --keep -- sdk/typescript/examples/contents.mjs
// cortex ask --file README.md --agent contents 'the contents in 2 levels'

import { readFile } from 'node:fs/promises'
import { Agent, Question, Rejected } from '../cortex-agent.mjs'

/** @typedef {{ level: number, title: string }} Heading */

const agent = new Agent()

agent.task('contents', async function* (task) {
  /** @type {Heading[]} */
  const headings = task.state ?? [] // a reply brings no files
  for (const file of task.files.filter((f) => f.name.endsWith('.md'))) {
    task.progress(file.name)
    let code = false
    for (const line of (await readFile(file.path, 'utf8')).split('\n')) {
      if (line.startsWith('```')) code = !code
      const [, marks, title] = /^(#{1,6}) +(.*?)[ #]*$/.exec(code ? '' : line) ?? []
      if (title) headings.push({ level: marks.length, title })
    }
  }
  if (headings.length === 0) throw new Rejected('there is no Markdown file with headings: bring one along')
  const levels = Number(/\d+/.exec(task.text)?.[0])
  if (!levels) return new Question('How many levels?', headings)
  let text = ''
  for (const { level, title } of headings.filter((h) => h.level <= levels)) {
    const slug = title.toLowerCase().replace(/[^\p{L}\p{N}\s_-]/gu, '').replace(/\s/g, '-')
    const line = `${'  '.repeat(level - 1)}- [${title}](#${slug})\n`
    yield line
    text += line
  }
  await task.file('contents.md', text)
})

await agent.run()
