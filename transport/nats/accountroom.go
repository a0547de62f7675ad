package nats

import (
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/cortex-orchestrator/cortex/transport"
)

// Cortex's own work ends long before a disk is full, but whoever has the credentials of a tenant's orchestrator may store what they like, in streams of their own
// as well. So while the disk has less free than files leave, the server bounds what each account has, whatever is stored: an account may grow until the disk has
// half of that free with which no work is done. What is left is for deleting what is too much. All tenants then wait, and go on when there is room.
//
// The bound is not there all the time, and not for an account that has next to nothing: a server takes it for a promise, and makes no stream when the bounds of all
// are larger, such as Cortex's first ones on a small disk.

// fewStreams bounds the streams of an account, since the files of empty ones are not counted. Cortex has fewer.
const fewStreams = 32

// bound is what an account may have.
type bound struct {
	was, is server.JetStreamAccountLimits
	least   int64 // bytes: a little more than there was, so that deleting, and a start, are possible where another account has the rest
}

// leaves returns how many bytes of a disk of this size no account takes.
func leaves(size uint64) uint64 { return max(talkOf(size)/2, leastToErase) / 2 }

// boundAccounts bounds all accounts while the disk is nearly full, and returns how long it takes at least until they are to be bounded. The caller holds r.mu.
func (r *diskRoom) boundAccounts(all *server.JSInfo, free, size uint64) time.Duration {
	low := reserveOf(size)
	if r.bounds != nil {
		low += low / 4 // hysteresis
	}
	if free >= low {
		r.freeAccounts()
		return time.Duration(free-low) * time.Second / diskPace
	}
	if r.bounds == nil {
		r.bounds = map[string]*bound{}
	}
	r.most = biggest(all)
	next := diskEvery
	room := int64(free - min(free, leaves(size)))
	for _, detail := range all.AccountDetails {
		account, err := r.ns.LookupAccount(detail.Id)
		if err != nil {
			continue // it was removed
		}
		if r.bounds[detail.Id] == nil && detail.Store < maxHeldAccount {
			next = diskSoon
			continue
		}
		now := account.JetStreamUsage().Limits
		b := r.bounds[detail.Id]
		if b == nil || b.is != now { // it is new, or its JWT has changed
			least := int64(detail.Store) + maxHeldAccount
			if b != nil {
				least = b.least
			}
			b = &bound{was: now, least: least}
			r.bounds[detail.Id] = b
		}
		b.is = b.was
		if most := max(int64(detail.Store)+room, b.least); b.was.MaxStore < 0 || most < b.was.MaxStore {
			b.is.MaxStore = most
		}
		if b.was.MaxStreams <= 0 || fewStreams < b.was.MaxStreams {
			b.is.MaxStreams = fewStreams
		}
		if room == 0 {
			b.is.MaxConsumers = 1 // of each stream, beside those that are there: neither are theirs
		}
		if err := account.UpdateJetStreamLimits(map[string]server.JetStreamAccountLimits{"": b.is}); err != nil {
			r.log.Warn("what an account may store cannot be bounded while the disk is nearly full", "account", detail.Id, "err", err)
		}
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
	r.bounds = nil
}

// biggest names the account with most in the store, "" where there is only one.
func biggest(all *server.JSInfo) (tenant string) {
	var most *server.AccountDetail
	for _, detail := range all.AccountDetails {
		if most == nil || detail.Store > most.Store {
			most = detail
		}
	}
	if len(all.AccountDetails) < 2 {
		return ""
	}
	return most.Name + " with " + transport.SizeText(int64(most.Store))
}
