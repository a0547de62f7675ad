// Takes whole turns with Cortex as an MCP host does that is not ours: something that needs a yes of the user, and something that takes longer than
// the host waits. Arguments: the cortex program, the URL of /mcp, the seconds after which this host cuts a call, and the seconds that the work takes.
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
const { resolve } = createRequire(process.env.PACKAGES + '/')
const of = (name) => import(pathToFileURL(resolve(name)).href)
const { Client, StreamableHTTPClientTransport } = await of('@modelcontextprotocol/client')
const { StdioClientTransport } = await of('@modelcontextprotocol/client/stdio')

const [cortex, url, cut, work] = process.argv.slice(2)
let failed = 0
const check = (what, ok, got) => {
  console.log(ok ? `ok      ${what}` : `FAILED  ${what}: ${JSON.stringify(got)}`)
  if (!ok) failed = 1
}

for (const [era, mode] of [['2025', 'legacy'], ['2026-07-28', { pin: '2026-07-28' }]]) {
  for (const way of ['stdio', 'http']) {
    const name = `${way}, ${era}`
    const client = new Client({ name: 'foreign', version: '1' }, { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode } })
    let forms = 0
    client.setRequestHandler('elicitation/create', async () => {
      forms++
      return { action: 'accept', content: { reply: 'yes' } }
    })
    await client.connect(way === 'http' ? new StreamableHTTPClientTransport(new URL(url)) : new StdioClientTransport({ command: cortex, args: ['mcp'], env: process.env, stderr: 'inherit' }))
    const call = async (tool, args, options) => (await client.callTool({ name: tool, arguments: args }, options)).structuredContent
    check(`${name}: tools`, (await client.listTools()).tools.length === 6)
    const answer = await call('ask', { text: `@echo hello ${name}` })
    check(`${name}: what needs a yes`, answer.state === 'completed' && answer.answer.includes(`hello ${name}`) && forms === 1, { answer, forms })

    let heard = 0
    const slow = { agent: 'slow', text: `work for ${name}` }
    let turn, again = 0
    for (;; again++) {
      try {
        turn = await call('ask_agent', slow, { timeout: cut * 1000, onprogress: () => heard++ })
        if (turn.state !== 'working') break
      } catch (error) {
        if (!/time/i.test(String(error))) throw error
      }
    }
    check(`${name}: what takes ${work} s, with calls of at most ${cut} s`, turn.answer.trim() === 'finished' && again > 0 && heard > 0, { turn, again, heard })
    const same = await call('get_turn', { turn_id: turn.turn_id })
    check(`${name}: the answer again`, same.answer === turn.answer, same)
    const list = await client.readResource({ uri: 'cortex://conversations' })
    check(`${name}: its conversation`, list.contents[0].text.includes(turn.context_id), list)
    await client.close()
  }
}
process.exit(failed)
