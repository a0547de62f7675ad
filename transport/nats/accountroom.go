package nats

import (
	"math"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/cortex-orchestrator/cortex/transport"
)

// Cortex's own work ends long before a disk is full, but whoever has the credentials of a tenant's orchestrator may store what they like, in streams of their own
// as well. So while the disk of a server that tenants share has little more free than files leave, the server bounds what each account has, whatever is stored: it may
// grow until the disk has only that free which deleting needs, see leaves. All tenants then wait, and go on when there is room.
//
// Bytes are not bounded all the time, and not for an account that has next to nothing: the server takes a bound for a promise, and makes no stream that may become
// larger, such as Cortex's first ones.

const (
	fewStreams   = 32      // an account has then, since the files of empty ones are not counted; Cortex has fewer
	smallAccount = 1 << 20 // bytes of one whose bytes are not bounded

	// eraseSlack is how many bytes an account may grow by where another has taken the rest: what is taken while no work is done, and what erasing writes before
	// it frees anything, a piece of rollBytes and notes.
	eraseSlack = maxHeldAccount + 2*rollPiece
)

// bound is what an account may have.
type bound struct {
	was, is server.JetStreamAccountLimits
	most    int64 // bytes
}

// leaves returns how many bytes of a disk of this size no account takes: enough for deletions, also of two or three at once. To overwrite a message the server
// writes a copy of its block, of 8 MiB in the log, and each deletion begins a new block of the inbox, of 4 MiB, which goes within seconds.
func leaves(size uint64) uint64 { return max(talkOf(size)/4, minTalk) }

// boundAccounts bounds all accounts while the disk is nearly full, and returns how long it takes at least until they are to be bounded. An account that is alone
// takes nothing from others. The caller holds r.mu.
func (r *diskRoom) boundAccounts(all *server.JSInfo, free, size uint64) time.Duration {
	low := reserveOf(size) + diskPace/uint64(time.Second/diskSoon) // what an account that is not bounded yet may write until the next check
	if r.bounds != nil {
		low += low / 4 // hysteresis
	}
	if len(all.AccountDetails) < 2 {
		r.freeAccounts()
		return diskEvery
	}
	if free >= low {
		r.freeAccounts()
		return time.Duration(free-low) * time.Second / diskPace
	}
	if r.bounds == nil {
		r.bounds = map[string]*bound{}
	}
	next, biggest := diskEvery, uint64(0)
	room := int64(free - min(free, leaves(size)))
	for _, detail := range all.AccountDetails {
		if detail.Store >= biggest {
			biggest, r.most = detail.Store, detail.Name+" with "+transport.SizeText(int64(detail.Store))
		}
		account, err := r.ns.LookupAccount(detail.Id)
		if err != nil {
			continue // it was removed
		}
		b, store := r.bounds[detail.Id], int64(detail.Store)
		if b == nil {
			b = &bound{most: math.MaxInt64}
			r.bounds[detail.Id] = b
		}
		if now := account.JetStreamUsage().Limits; now != b.is { // it is new, or its JWT has changed
			b.was = now
		}
		if room > eraseSlack {
			b.most = store + max(room/int64(len(all.AccountDetails)), eraseSlack)
		} else {
			b.most = min(b.most, store+eraseSlack) // it falls when the account deletes
		}
		most := b.most
		if free < leaves(size)/4 { // what deletions write for a moment is no reason
			most = min(most, store) // files may take more of the disk than what is stored, such as what was removed from their last blocks
		}
		is := b.was
		if b.was.MaxStreams <= 0 || fewStreams < b.was.MaxStreams {
			is.MaxStreams = fewStreams
		}
		if store < smallAccount {
			next = diskSoon
		} else if b.was.MaxStore < 0 || most < b.was.MaxStore {
			is.MaxStore = most
		}
		if err := account.UpdateJetStreamLimits(map[string]server.JetStreamAccountLimits{"": is}); err != nil {
			r.log.Warn("what an account may store cannot be bounded while the disk is nearly full", "account", detail.Id, "err", err)
			continue // it has what it had: b.was and b.is hold
		}
		b.is = is
	}
	return next
}

// freeAccounts lets accounts have what they might have before.
func (r *diskRoom) freeAccounts() {
	for id, b := range r.bounds {
		account, err := r.ns.LookupAccount(id)
		if err == nil && account.JetStreamUsage().Limits == b.is {
			err = account.UpdateJetStreamLimits(map[string]server.JetStreamAccountLimits{"": b.was})
		}
		if err != nil {
			r.log.Warn("an account keeps its bound of when the disk was nearly full, until the next start", "account", id, "err", err)
		}
	}
	r.bounds, r.most = nil, ""
}
