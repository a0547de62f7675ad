// Does with Cortex, as an A2A server, all that the JavaScript SDK of A2A can. Arguments: the clients, 1.0 or 0.3, and the URL of the server.
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
import { randomUUID } from 'node:crypto'
const { resolve } = createRequire(process.env.PACKAGES + '/')
const of = (name) => import(pathToFileURL(resolve(name)).href)

const [mode, url] = process.argv.slice(2)
const hitl = 'https://kagent.dev/extensions/hitl/v1'
let failed = 0
const check = (what, ok, got) => {
  console.log(ok ? `ok      ${what}` : `FAILED  ${what}: ${JSON.stringify(got)}`)
  if (!ok) failed = 1
}
const fails = async (what, call, want) => {
  const error = await call().then(() => null, (e) => e)
  check(what, error !== null && want.test(`${error.name} ${error.code} ${error.message}`), String(error))
}

// The client of A2A 1.0.
const sdk = await of('@a2a-js/sdk')
const one = await of('@a2a-js/sdk/client')
const { GrpcTransportFactory } = await of('@a2a-js/sdk/client/grpc')
const { TaskState, SendMessageRequest } = sdk
const transports = [new one.JsonRpcTransportFactory(), new one.RestTransportFactory(), new GrpcTransportFactory()]
const request = (text, more = {}, configuration = undefined) =>
  SendMessageRequest.fromJSON({ message: { messageId: randomUUID(), role: 'ROLE_USER', parts: [{ text }], ...more }, configuration })
const words = (parts) => parts.map((p) => (p.content.$case === 'text' ? p.content.value : '')).join('')
const answer = (task) => words(task.artifacts.find((a) => a.artifactId === 'answer')?.parts ?? [])

const current = async (binding, path) => {
  const name = `1.0, ${binding}${path ? '' : ', Cortex itself'}`
  const client = await new one.ClientFactory({ transports, preferredTransports: [binding] }).createFromUrl(url + path)
  check(`${name}: it is chosen`, client.transport.protocolName === binding, client.transport.protocolName)
  const send = (text, more, options) => client.sendMessage(request(text, more), options)

  const card = await client.getAgentCard()
  check(`${name}: card`, card.skills.length > 0 && card.capabilities.extensions.some((e) => e.uri === hitl && !e.required), card)
  if (!path) {
    check(`${name}: the extended card has the agents' skills`, card.skills.some((s) => s.id === 'helper/help'), card.skills)
    const task = await send('what is 17*23?')
    check(`${name}: send`, task.status.state === TaskState.TASK_STATE_COMPLETED && /391/.test(answer(task)), task)
    return
  }

  const done = await send('hello')
  check(`${name}: send`, done.status.state === TaskState.TASK_STATE_COMPLETED && answer(done) === 'HELLO', done)
  const got = await client.getTask({ tenant: '', id: done.id, historyLength: 0 })
  check(`${name}: get`, answer(got) === 'HELLO' && got.history.length === 0, got)
  const next = await send('hello again', { contextId: done.contextId })
  const list = await client.listTasks({ tenant: '', contextId: done.contextId, pageSize: 1, pageToken: '', status: TaskState.TASK_STATE_UNSPECIFIED, includeArtifacts: true })
  const rest = await client.listTasks({ tenant: '', contextId: done.contextId, pageSize: 1, pageToken: list.nextPageToken, status: TaskState.TASK_STATE_UNSPECIFIED })
  check(`${name}: list`, list.totalSize === 2 && list.tasks[0].id === next.id && answer(list.tasks[0]) === 'HELLO AGAIN' && rest.tasks[0].id === done.id && rest.nextPageToken === '', { list, rest })

  const events = []
  for await (const e of client.sendMessageStream(request('stream'))) events.push(e.payload)
  const last = events.at(-1)
  check(`${name}: stream`, events[0].$case === 'task' && last.$case === 'statusUpdate' && last.value.status.state === TaskState.TASK_STATE_COMPLETED &&
    events.some((e) => e.$case === 'artifactUpdate' && words(e.value.artifact.parts) === 'STREAM'), events)

  const file = (await send('write')).artifacts.flatMap((a) => a.parts).find((p) => p.content.$case === 'raw')
  check(`${name}: a file`, file && Buffer.from(file.content.value).toString() === 'a,b\n1,2\n' && file.filename === 'table.csv', file)

  const asks = await send('paint')
  check(`${name}: a question`, asks.status.state === TaskState.TASK_STATE_INPUT_REQUIRED && /Which colour/.test(words(asks.status.message.parts)), asks)
  const painted = await send('red', { taskId: asks.id })
  check(`${name}: its answer`, painted.id === asks.id && painted.status.state === TaskState.TASK_STATE_COMPLETED && answer(painted) === 'painted red', painted)

  // The extension: the question as data, and the reply likewise.
  const known = { serviceParameters: one.ServiceParameters.create(one.withA2AExtensions(hitl)) }
  const put = (await send('paint', {}, known))
  const question = put.status.message.metadata?.[hitl]
  check(`${name}: a question as data`, put.status.message.extensions.includes(hitl) && question?.type === 'ask_user_request' && question.questions.length === 1, put.status.message)
  await fails(`${name}: a reply to another question`, () => send('', reply(put.id, { type: 'ask_user_response', id: 'x', answers: [{ answer: ['blue'] }] }), known), /no question with this id/)
  const blue = await send('blue', reply(put.id, { type: 'ask_user_response', id: question.id, answers: [{ answer: ['blue'] }] }), known)
  check(`${name}: its answer as data`, blue.status.state === TaskState.TASK_STATE_COMPLETED && answer(blue) === 'painted blue', blue)

  // A stream is cut; the task goes on, and is followed by another one.
  const cut = new AbortController()
  let id
  try {
    for await (const e of client.sendMessageStream(request('wait'), { signal: cut.signal })) {
      if (e.payload.$case === 'task') id = e.payload.value.id
      if (e.payload.$case === 'statusUpdate' && /waiting/.test(words(e.payload.value.status.message?.parts ?? []))) cut.abort()
    }
  } catch (error) {
    if (!cut.signal.aborted) throw error
  }
  const seen = []
  for await (const e of client.resubscribeTask({ tenant: '', id })) {
    seen.push(e.payload)
    if (seen.length === 1) {
      check(`${name}: resubscribe`, e.payload.$case === 'task' && e.payload.value.id === id && e.payload.value.status.state === TaskState.TASK_STATE_WORKING, e.payload)
      await send('go')
    }
  }
  check(`${name}: to the end`, seen.at(-1).value.status.state === TaskState.TASK_STATE_COMPLETED && seen.some((e) => e.$case === 'artifactUpdate' && words(e.value.artifact.parts) === 'waited'), seen)
  await fails(`${name}: resubscribe to what is over`, async () => { for await (const _ of client.resubscribeTask({ tenant: '', id })); }, /over|Unsupported/i)

  const running = await client.sendMessage(request('wait', {}, { returnImmediately: true }))
  check(`${name}: at once`, running.status.state === TaskState.TASK_STATE_WORKING || running.status.state === TaskState.TASK_STATE_SUBMITTED, running)
  const canceled = await client.cancelTask({ tenant: '', id: running.id, metadata: undefined })
  check(`${name}: cancel`, canceled.status.state === TaskState.TASK_STATE_CANCELED, canceled)
  await fails(`${name}: cancel again`, () => client.cancelTask({ tenant: '', id: running.id, metadata: undefined }), /cancel/i)
  await fails(`${name}: no such task`, () => client.getTask({ tenant: '', id: 'none' }), /no task|not ?found/i)
}

const reply = (taskId, said) => ({ taskId, extensions: [hitl], metadata: { [hitl]: said }, parts: [{ text: 'for people' }] })

// A yes in the form of the extension.
const consent = async (binding) => {
  const client = await new one.ClientFactory({ transports, preferredTransports: [binding] }).createFromUrl(url + '/agents/agent_echo/')
  const known = { serviceParameters: one.ServiceParameters.create(one.withA2AExtensions(hitl)) }
  for (const approved of [true, false]) {
    const asks = await client.sendMessage(request('say it'), known)
    const tools = asks.status.message?.metadata?.[hitl]?.tools ?? []
    check(`1.0, ${binding}: a yes is wanted`, asks.status.state === TaskState.TASK_STATE_INPUT_REQUIRED && tools.length === 1 && tools[0].args.task === 'say it', asks)
    const end = await client.sendMessage(request('', reply(asks.id, { type: 'tool_approval_response', approvals: [{ id: tools[0]?.id, approved }] })), known)
    check(`1.0, ${binding}: ${approved ? 'yes' : 'no'}`, end.status.state === TaskState.TASK_STATE_COMPLETED && (answer(end) === 'Echo: say it') === approved, end)
  }
}

// The client of A2A 0.3.
const older = async (binding) => {
  const old = await of('@a2a-js/sdk-0.3/client')
  const name = `0.3, ${binding}`
  const transports = [new old.JsonRpcTransportFactory(), new old.RestTransportFactory()]
  const client = await new old.ClientFactory({ transports, preferredTransports: [binding] }).createFromUrl(url + '/agents/helper/')
  const ask = (text, more = {}, configuration = undefined) => ({ message: { kind: 'message', messageId: randomUUID(), role: 'user', parts: [{ kind: 'text', text }], ...more }, configuration })
  const said = (task) => task.artifacts?.find((a) => a.artifactId === 'answer')?.parts.map((p) => p.text).join('')

  const done = await client.sendMessage(ask('hello'))
  check(`${name}: send`, done.kind === 'task' && done.status.state === 'completed' && said(done) === 'HELLO', done)
  const got = await client.getTask({ id: done.id })
  check(`${name}: get`, said(got) === 'HELLO', got)
  const events = []
  for await (const e of client.sendMessageStream(ask('stream'))) events.push(e)
  check(`${name}: stream`, events[0].kind === 'task' && events.at(-1).kind === 'status-update' && events.at(-1).status.state === 'completed' && events.at(-1).final, events)
  const file = (await client.sendMessage(ask('write'))).artifacts.flatMap((a) => a.parts).find((p) => p.kind === 'file')
  let bytes = Buffer.from(file?.file.bytes ?? '', 'base64')
  if (binding === 'HTTP+JSON') bytes = Buffer.from(bytes.toString(), 'base64') // as the SDK for Go writes it; this one reads no name there
  check(`${name}: a file`, bytes.toString() === 'a,b\n1,2\n' && (file.file.name === 'table.csv' || binding === 'HTTP+JSON'), file)
  const asks = await client.sendMessage(ask('paint'))
  const painted = await client.sendMessage(ask('red', { taskId: asks.id, contextId: asks.contextId }))
  check(`${name}: a question and its answer`, asks.status.state === 'input-required' && painted.id === asks.id && said(painted) === 'painted red', { asks, painted })

  let id
  for await (const e of client.sendMessageStream(ask('wait'))) {
    id ??= e.id
    if (e.kind === 'status-update' && e.status.state === 'working') break // the connection is cut
  }
  const seen = []
  for await (const e of client.resubscribeTask({ id })) {
    seen.push(e)
    if (seen.length === 1) await client.sendMessage(ask('go'))
  }
  check(`${name}: resubscribe`, seen[0].kind === 'task' && seen[0].id === id && seen.at(-1).status.state === 'completed', seen)
  const running = await client.sendMessage(ask('wait', {}, { blocking: false }))
  const canceled = await client.cancelTask({ id: running.id })
  check(`${name}: cancel`, canceled.status.state === 'canceled', canceled)
  await fails(`${name}: no such task`, () => client.getTask({ id: 'none' }), /not ?found|no task/i)
}

for (const binding of ['JSONRPC', 'HTTP+JSON', 'GRPC']) {
  await current(binding, '/agents/helper/')
  await current(binding, '')
  await consent(binding)
}
if (mode === '0.3') {
  await older('JSONRPC')
  await older('HTTP+JSON')
}
process.exit(failed)
