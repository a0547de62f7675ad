// Package torture kills the processes of a Cortex at random while it answers, and checks every answer afterwards. It implements `cortex torture`, for
// developers of the parts that keep the promise that nothing is lost and nothing done twice.
//
// Run starts servers, replicas, agents and clients as separate processes on loopback; kills them with SIGKILL at random times, and restarts them;
// waits until all work has ended; and then judges from outside: by what the clients recorded before and after they sent messages, and by the
// conversations' logs.
package torture
