/**
 * Agents for Cortex in TypeScript and JavaScript, without dependencies and without a build.
 *
 *     import { Agent } from './cortex-agent.mjs'
 *
 *     const agent = new Agent()
 *     agent.task(async (task) => String(task.text.split(/\s+/).length))
 *     await agent.run()
 *
 * Cortex runs the program: cortex agent exec --card card.yaml --protocol jsonl --keep -- node count.mjs
 *
 * console.log goes to standard error, which is the agent's log: standard output belongs to the protocol.
 */

/** Any JSON value that is no text: the data of a result. */
export type Data = number | boolean | object

/** What a handler returns: text, data, a question to the user, or nothing, which stands for the text that was streamed. */
export type Result<Output = Data> = string | Output | Question | void

/** A handler does one task. What a generator yields is streamed. */
export type Handler<Input = unknown, Output = Data> = (
  task: Task<Input>,
) => Result<Output> | Promise<Result<Output>> | Generator<string, Result<Output>> | AsyncGenerator<string, Result<Output>>

/** A program that does tasks. */
export declare class Agent {
  /** Makes a function the handler of all skills that have no other. */
  task<Input = unknown, Output = Data>(handler: Handler<Input, Output>): this
  /** Makes a function the handler of a skill. Cortex checks input and result by the schemas on the card. */
  task<Input = unknown, Output = Data>(skill: string, handler: Handler<Input, Output>): this
  /** Does tasks until Cortex says that there are no more. */
  run(): Promise<void>
}

/** What the agent is asked to do. After a cancel its methods throw {@link Canceled}. */
export declare class Task<Input = unknown> {
  readonly id: string
  /** The conversation. */
  readonly context: string
  /** The id of the requested skill. */
  readonly skill: string
  /** The words of the task, or the user's reply. */
  readonly text: string
  /** Structured input. */
  readonly input: Input
  /** All that the task brings, as A2A parts; files as file: URLs. */
  readonly parts: object[]
  readonly files: File[]
  /** Files in it can become files of the result. */
  readonly folder: string
  readonly deadline: Date | undefined
  /** Above 1, the task was begun before, and lost. */
  readonly delivery: number
  /** Whether text is the user's reply to a question of this task. */
  readonly reply: boolean
  /** What that {@link Question} brought along; undefined if it is not known on this machine. */
  readonly state: any
  /** What was said before, and what was asked then. */
  readonly history: { text: string; question: string }[]
  readonly traceparent: string
  readonly tracestate: string
  /** Aborts when the task is canceled. */
  readonly signal: AbortSignal

  /** Shows one line to those who watch, and gives the task more time. */
  progress(text: string): void
  /** Shows a piece of the result's text as it is made. */
  stream(text: string): Promise<void>
  /** Adds an output to the result: text or data. With append, text is added to the output of that name. */
  artifact(name: string, content: { text?: string; data?: unknown; description?: string; append?: boolean }): void
  /** Adds a file to the result: with content, or the one of that name that is in folder already. Returns its path. */
  file(name: string, content?: string | Uint8Array, options?: { mediaType?: string }): Promise<string>
  /** Asks Cortex, or an agent, and waits for the answer. Throws {@link AskFailed}. */
  ask(text: string, to?: { agent?: string; skill?: string; input?: unknown }): Promise<Answer>
}

/** A file that a task or an answer brings. */
export interface File {
  readonly name: string
  readonly type?: string
  readonly size: number
  readonly path: string
}

/** What came of {@link Task.ask}. */
export interface Answer {
  readonly text: string
  readonly data?: any
  readonly files: File[]
}

/** A question to the user. The reply arrives as a task with the same id, maybe in another process, with state. */
export declare class Question {
  constructor(text: string, state?: unknown)
  readonly text: string
  readonly state: any
}

/** Thrown by a handler that refuses the task and has not begun it. */
export declare class Rejected extends Error {}
/** What was asked of others has failed. */
export declare class AskFailed extends Error {}
/** The task was canceled. */
export declare class Canceled extends Error {}
