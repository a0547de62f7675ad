package nats

import (
	"hash/maphash"
	"strings"

	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/storecheck"
)

// FileAudit finds the files of an account that no message refers to, from the messages in the server's files. Anybody may refer to any number of files
// that do not exist, so that it keeps no references, but forgets the files to which they are.
type FileAudit struct {
	silent map[transport.Object]map[int]int // bytes of each chunk
	dead   map[uint64]struct{}              // hashes of files that dead letters refer to: these come before the files, and have a bound of bytes
	seed   maphash.Seed
	logged bool // the account has the stream of the conversations
}

// Inspect returns a function that takes the intact messages of a stream; nil for a stream that is not needed. Streams come in the order of their names,
// possibly several times, as those of a check do.
func (a *FileAudit) Inspect(stream string) func(*storecheck.Record) {
	if a.silent == nil {
		a.silent, a.dead, a.seed = map[transport.Object]map[int]int{}, map[uint64]struct{}{}, maphash.MakeSeed()
	}
	switch stream {
	case deadStream:
		return a.references(func(o transport.Object) { a.dead[maphash.Comparable(a.seed, o)] = struct{}{} })
	case fileStream:
		return a.chunk
	case logStream:
		a.logged = true
		fallthrough
	case inboxStream:
		return a.references(func(o transport.Object) { delete(a.silent, o) })
	}
	return nil
}

func (a *FileAudit) chunk(r *storecheck.Record) {
	o, n, err := parseChunkSubject(r.Subject)
	if r.Gone || err != nil {
		return
	}
	if _, named := a.dead[maphash.Comparable(a.seed, o)]; named {
		return
	}
	if a.silent[o] == nil {
		a.silent[o] = map[int]int{}
	}
	a.silent[o][n] = len(r.Data)
}

// references returns a function that calls name with each file that a message refers to. The fourth token of its subject is the tenant.
func (*FileAudit) references(name func(transport.Object)) func(*storecheck.Record) {
	return func(r *storecheck.Record) {
		token := strings.SplitN(r.Subject, ".", 5)
		if r.Gone || len(token) < 5 {
			return
		}
		tenant, err := transport.Unescape(token[3])
		if err != nil {
			return
		}
		for _, o := range transport.NamedFiles(tenant, r.Data) {
			name(o)
		}
	}
}

// Silent returns the bytes of each file that no message refers to. It returns none when the conversations are in another store, which may refer to
// any file.
func (a *FileAudit) Silent() map[transport.Object]int64 {
	silent := map[transport.Object]int64{}
	if !a.logged {
		return silent
	}
	for o, chunks := range a.silent {
		for _, n := range chunks {
			silent[o] += int64(n)
		}
	}
	return silent
}
