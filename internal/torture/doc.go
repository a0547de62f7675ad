// Package torture kills the processes of a Cortex at random while it answers, and checks every answer afterwards. It serves
// `cortex torture`, and is of use to whoever changes what keeps the promise that nothing is lost and nothing done twice.
//
// Run starts servers, replicas, agents and clients as processes of their own, on loopback; kills them with SIGKILL at
// random moments, and starts them again; lets everything become quiet; and then judges from outside: by what the clients
// wrote down before and after they said something, and by the conversations' logs.
package torture
