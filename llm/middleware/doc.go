// Package middleware adds policies to an [llm.Client]: prices, timeouts, rate limits, retries and fallbacks. Each is a function from client to
// client. From the outside in, they are meant to be combined as
//
//	Fallback([]Named{{name, Retry(RateLimit(Timeout(Prices(client, …), …), …), …)}, …}, log)
//
// so that every attempt is priced and counted by the limits, waiting for a rate limit is not mistaken for silence, and the next model is asked when
// retries of the first one have failed.
//
// All of them are safe for concurrent use, call the client from the caller's goroutine, and pass on chunks as they arrive. When the caller leaves the
// loop, the client's call ends, too. An answer that ends without a Done chunk and without an error becomes an [llm.ErrTruncated]. errors.Is and
// errors.As see through what a middleware adds to an error, and [llm.UsageOf] returns the cost of all attempts together.
package middleware
