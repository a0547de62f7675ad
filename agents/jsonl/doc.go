// Package jsonl is the protocol between Cortex and a program that does an agent's tasks: one JSON object per line, in both directions. The program
// reads lines on standard input and writes lines on standard output. Standard error is its log.
//
// This is version 1, which a program finds as "jsonl 1" in the environment variable CORTEX_PROTOCOL. Later builds may add types of lines that a
// program is only sent after it has used something new, and fields. So a program ignores fields and types that it does not know. Anything that
// would break a program gets another version and another name on the command line.
//
// # To the program
//
// Each line has a type and the id of a task:
//
//	{"type":"task","version":1,"id":"t1","context":"c1","skill":"count","text":"to be or not to be", …}
//	{"type":"cancel","id":"t1","reason":"the task was canceled"}
//	{"type":"reply","id":"t1","ask":"a1","text":"The answer."}
//
// A task has these fields; those that are empty are left out:
//
//	context      the conversation
//	skill        the id of the requested skill
//	text         the words of the task
//	input        its structured input, any JSON value
//	parts        all that the task brings, as A2A parts; each file as a file: URL
//	files        [{"name","type","size","path"}]: the same files, as paths to read
//	folder       a folder for the task: files in it can become files of the result; it is removed after the task
//	deadline     RFC 3339: when the result is no longer needed; progress moves it
//	delivery     how often the task was given, from 1; above 1, the program, the agent or Cortex was lost before. A NATS server that is
//	             killed just when it hands out a task may hand it out again with 1: the id stays the same
//	reply        true: text is the user's reply to a question of this task
//	history      with reply: [{"text","question"}], what was said before and what the program asked then, the oldest first
//	state        with reply: what the program sent along with its question
//	traceparent, tracestate   the W3C trace context
//
// A question ends the program's work on a task, and the reply comes as a task with the same id, with all that is needed to go on. So the
// program need not run while the user thinks, and may be another one then. State and history are kept by the agent on its machine; when
// the reply reaches an instance of the agent elsewhere, both are missing.
//
// After cancel the program ends the task, by any line that ends it, within two seconds.
//
// A reply has the ask that it answers, the text, data (if the answer has some) and files, as in a task. With "failed":true the text is the reason.
//
// # From the program
//
// Each line has a type and the id of its task. A program that was started for one task may leave out the id.
//
//	{"type":"progress","id":"t1","text":"page 3 of 10"}           one line for those who watch; gives the task more time
//	{"type":"text","id":"t1","text":"The answer "}                a piece of the result's text, shown as it is made
//	{"type":"artifact","id":"t1","name":"table","data":[1,2]}     an output beside the result: text or data, maybe a description
//	{"type":"file","id":"t1","path":"plot.png"}                   a file in the task's folder that is complete; maybe name and media_type
//	{"type":"ask","id":"t1","ask":"a1","text":"what is 17*23?"}   asks Cortex, or with agent (and skill, input) that agent; see reply
//
// An artifact with "append":true adds text to the artifact of that name, or begins it; without, it is complete, and replaces an earlier one.
//
// These end the task:
//
//	{"type":"result","id":"t1","text":"Done."}                    with text, data or both; with neither the pieces of text are the result
//	{"type":"input_required","id":"t1","text":"Which one?","state":{"n":1}}
//	{"type":"rejected","id":"t1","text":"I only count words."}    it was not begun, and is refused
//	{"type":"error","id":"t1","text":"The disk is full."}
//
// Lines about a task that has ended are ignored, and, of a program that stays, about one that it does not have.
//
// # Bounds
//
// A line of the program has at most [MaxLine] bytes, and a task at most [MaxLines] lines. A program that writes faster than [MaxRate] lines per second
// waits. A line to the program is nested at most [MaxDepth] levels deep. At most [MaxAsks] asks of a task are open at a time, and a state has at most [MaxState] bytes.
// The files of a task, with those that later ones of their name replace, have at most 256 MiB together.
//
// A line that is too long, is no JSON object, has an unknown type or lacks a field breaks the protocol: the task fails with the beginning of the line.
// If the line does not say which task it is about (of one that is too long: before what is cut off, so the id should come first), what follows cannot be
// trusted. A program for one task fails it. One that stays is ended, and each of its tasks is given to another one.
// The beginning of a line that the program ended within is ignored.
package jsonl
