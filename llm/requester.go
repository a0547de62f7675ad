package llm

import "context"

type requesterKey struct{}

// WithRequester returns a context whose requests are made for a person or agent. Where they have to wait, as for the rate limit of an endpoint, they are made
// by turns of those for whom they are, so that nobody waits for all that another one asks for. Who is not named is one requester of their own.
func WithRequester(ctx context.Context, requester string) context.Context {
	return context.WithValue(ctx, requesterKey{}, requester)
}

// Requester returns for whom the requests of ctx are made, or "".
func Requester(ctx context.Context) string {
	of, _ := ctx.Value(requesterKey{}).(string)
	return of
}
