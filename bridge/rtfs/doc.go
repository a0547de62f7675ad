// Package rtfs makes Cortex a registry for agents that speak RTFS's agent discovery: JSON-RPC 2.0 over HTTP. Who registers is an agent of Cortex, and who
// discovers finds Cortex's agents as well. [Role] is the role of `cortex serve` for that.
//
// # The registry
//
// It is served at /rtfs and at /. Each error has the status 200, each card has all fields, and each id comes back as it was given, since the
// client library of RTFS reads nothing else. Members that are not known are ignored.
//
//	rtfs.registry.register     a lease of ttl_seconds (an hour; at most a day), which is stored when it is answered
//	rtfs.registry.heartbeat    the lease holds longer; not in RTFS's specification, where one registers again
//	rtfs.registry.discover     agents that meet all criteria, sorted by id: 100 of them, or as many as limit says, at most 1000 and 4 MiB
//	rtfs.registry.deregister   the end of a lease, also called rtfs.registry.unregister
//	rtfs.registry.health       also called rtfs.registry.health_check
//
//	-32001   the agent cannot register, and why
//	-32002   there is no such agent
//	-32003   there are 10,000 agents, their cards take too much memory, or too many searches are under way
//
// Criteria may be within discovery_query or beside it. Versions are compared as semantic versions, tags exactly, and what is no known criterion with the
// metadata.
//
// # Agents that register
//
//	agent_id          the agent's id, or --rtfs-prefix before it
//	capability_id     a skill; inline schemas are those of its input and output
//	discovery_tags    tags
//	metadata          labels; the owner is the team that owns the agent; with "idempotent": true, calls may be made again
//	the first endpoint of http or https in the card, then the others, then endpoint_url: where it is called
//
// An agent whose name somebody else has in Cortex is refused, with words. One that finds its name taken after a restart, or
// by an agent that has come later and announces itself, or has got a key, is left out until the name is free. A name with a key is never free.
// Leases survive a restart, and replicas of Cortex have each other's within half a minute.
//
// A task is a POST of {"capability_id", "input", "metadata"}: the input is the task's, or {"text": …}; names of files are in the text, files are not sent. The
// answer is {"success", "output", "error"}, of at most 4 MiB, within five minutes; a text is the result's text, everything else its data. The
// task's id is in the header Idempotency-Key.
//
// A task is given at most once: when the agent may have got the call and no answer has come, or Cortex was stopped meanwhile, the task fails, and the
// failure says that it may have been done. Only an agent that says it is idempotent is called again.
//
// # Agents of Cortex
//
// Their cards have the endpoint /agents/ID of this server, or below --rtfs-public-url. A call there is a turn that is for this agent and skill, from
// rtfs:CLIENT, where CLIENT is what the call's metadata say of it, or anonymous: a claim. Rules of a policy can name such senders. It is answered within
// 25 s, if need be with the error "still working" and the ids of the work in the metadata. With a key, in the header Idempotency-Key or as request_id in the
// metadata, the same call again is the same work, and gets its result; without one, each call is work of its own.
//
// # Where it listens, and where it goes
//
// RTFS has no keys, so the address is one of this machine, unless another one is given. Pages in a browser are refused, whose requests have the
// header Origin: they could reach an address of this machine.
//
// The addresses of agents come from strangers. Cortex goes to those of the internet; to this machine only while it listens to this machine only, since who
// registers is on it then; and to hosts that --rtfs-host names. It follows no redirects and uses no proxy. So nobody who registers can reach by Cortex what
// they could not reach without it. An agent on a private network is not allowed because it registers from its own address: behind a gateway, all
// of them have the gateway's.
package rtfs
