// Package middleware puts policies around an [llm.Client]: what a call costs, how long it may be silent, how many there may
// be, when one is tried again, and which model comes next. Each is a function from client to client; from the outside in,
// they are meant to stand as
//
//	Fallback([]Named{{name, Retry(RateLimit(Timeout(Prices(client, …), …), …), …)}, …}, log)
//
// so that every attempt is priced and counted against the limits, the time that a call waits for its turn is no silence, and
// the next model is asked when trying the first one again did not help.
//
// All of them are safe for concurrent use, call the client from the goroutine of the caller, and hand chunks on as they
// come. When the caller leaves the loop the client's call ends too. An answer that ends without a chunk that is Done and
// without an error becomes an [llm.ErrTruncated]. Errors keep what they are: errors.Is and errors.As see through
// what a middleware adds, and [llm.UsageOf] tells what all attempts together spent.
package middleware
