package storage

import "context"

type requesterKey struct{}

// WithRequester returns a context whose reads are for a person or agent. A store that cannot serve all reads at once serves those
// of different requesters by turns, so that nobody waits for all that another one asks for. Who is not named is one requester of their own.
func WithRequester(ctx context.Context, requester string) context.Context {
	return context.WithValue(ctx, requesterKey{}, requester)
}

// Requester returns for whom the reads of ctx are, or "".
func Requester(ctx context.Context) string {
	of, _ := ctx.Value(requesterKey{}).(string)
	return of
}
