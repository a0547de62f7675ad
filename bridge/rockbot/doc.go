// Package rockbot has RockBot (github.com/MarimerLLC/rockbot) and Cortex give each other work, by way of the RabbitMQ where RockBot is. [Role] is the
// role of `cortex serve` for that; a program of one's own adds it to app.Options.Roles. Package rockbottest plays RockBot, for tests.
//
// # What is where
//
// Everything is RockBot's: the exchanges rockbot and rockbot.dlx, which are declared as it declares them, topics, properties and JSON. A queue with one of its
// names is declared only if it is not there, with its arguments, since RockBot's second generation deletes a queue that has others.
//
//	rockbot.NAME.agent-task-NAME   tasks of an agent that Cortex announces, or of one in --rockbot-known
//	cortex.NAME.response           answers to Cortex, whose name is NAME at RockBot
//	cortex.NAME.cancel             cancellations of the tasks of Cortex's agents
//	cortex.NAME.dlq                what could not be read, for three days, at most 10,000 messages
//	two queues without a name      cards, and reports of progress: they end with the connection
//
// Of several replicas of Cortex the one that leads is connected. The connection is made again whenever it has ended, after pauses of 2 to 30 s; the log says
// so once.
//
// # Agents of RockBot
//
//	agentName             the agent's id, or --rockbot-prefix before it; upper and lower case make no two agents
//	a skill's id          a skill's id
//	a card                the agent is there, for 6 min; also after a restart of Cortex
//	isDeregistering       it takes no more tasks, and its present ones still get their answers
//	an agent of --rockbot-known   is always there: its queue has its tasks until it is started
//	a status update       progress, which moves the deadline
//	states 3, 4, 5, 2     completed, failed, canceled; a question, whose reply goes to the same task and context
//	an error              a failure with its text
//
// A task is noted, published with mandatory and confirm, and noted again when RabbitMQ has confirmed it. An answer is noted before it is acknowledged. So a task that
// was not confirmed is published again after a restart, as the same task; one that was is only waited for. The first answer counts, also one that cannot be
// read: it fails the task, since no other one will come. Of a result with more than 200 KiB the beginning is noted, and all of it used unless Cortex is
// killed just then. When no queue takes a task, it fails at once: there is no such agent. A canceled task is told to the agent, and does not wait for what it says.
//
// Structured input is a data part for the second generation, whose cards have more members, and JSON behind the text for the first. RockBot has no files: their
// names are in the text. An agent whose id somebody else has announced in Cortex is left out until it is free, also when that one has come
// later, or has keys and is away, and so is one that is only called by HTTP.
//
// # Agents of Cortex
//
// Cortex itself is announced under --rockbot-name, with the skill ask, and the agents that --rockbot-announce names, each under its id: at the start, when they
// change, every two minutes, and as deregistering when they leave or Cortex is stopped. RockBot's own agents are never announced back.
//
// A task is a turn of rockbot:SOURCE, where SOURCE is what rb-source says: a claim. It is noted and stored with Cortex before it is acknowledged. The same
// task again, of the same source, is not done again, and its answer is sent again, for a day. An answer is published until RabbitMQ has confirmed it; when Cortex is
// killed just then, twice. It goes to agent.response or a topic below it, and to no other, so that nobody has Cortex say something elsewhere. It comes no
// sooner than 50 ms after the task: the first generation notes a task only when it has sent it.
//
// Callers choose their names, so that 100 tasks a second are taken of all together, and 300 at once, with 8 MiB a second. The others wait in their queues.
// 1,024 tasks may be open, and 128 of one caller; a caller has at most three times as many as are free. What is more, and what Cortex has no room for now, as when
// too much of a caller waits in one conversation or the disk is full, is answered at once with an error that may be retried: it holds up nobody else's, and may be sent again, also with the same
// taskId. Tasks stay in their queues only while what Cortex stores in is away.
//
// A question is an answer in state 2, with a context by which the reply finds back, within a week; for callers in --rockbot-g1 it is an answer in state 3. A canceled
// task is answered in state 5. What is no task is rejected to the dead letters, and its sender is told invalid_request.
//
// # What is not promised
//
// RockBot delivers at least once, and does a task again whose agent was stopped. It asks RabbitMQ for no confirmations: what it has published and RabbitMQ has lost
// runs into Cortex's deadline. Most of its agents do not heed cancellations. Nothing on the wire is authenticated but the connection. Cancellations and
// progress that fall into a lost connection are lost. A message larger than 4 MiB is refused; RabbitMQ itself bounds what has to be read to know that.
package rockbot
