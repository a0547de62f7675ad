package retain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/datadir"
	"github.com/cortex-orchestrator/cortex/internal/erase"
	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	retainFirst = time.Minute // after the start
	retainEvery = time.Hour
	retainDays  = 100 * 365 // at most
)

// Period is a duration that can be given in days, such as 30d. Zero is unlimited.
type Period time.Duration

// Set implements pflag.Value.
func (r *Period) Set(s string) error {
	d, err := time.ParseDuration(s)
	if days, ok := strings.CutSuffix(s, "d"); ok {
		var n int
		n, err = strconv.Atoi(days)
		// Bounded before the multiplication: an overflow could give a short time, and delete too much.
		d = time.Duration(max(-1, min(n, retainDays+1))) * 24 * time.Hour
	}
	if err != nil || d < 0 || s != "0" && d < time.Minute || d > retainDays*24*time.Hour {
		return fmt.Errorf("%q is no time to keep something: write days or hours, such as 30d or 12h", s)
	}
	*r = Period(d)
	return nil
}

// String implements pflag.Value.
func (r *Period) String() string {
	if d := time.Duration(*r); d == 0 {
		return ""
	} else if d%(24*time.Hour) == 0 {
		return strconv.Itoa(int(d/(24*time.Hour))) + "d"
	} else {
		return d.String()
	}
}

// Type implements pflag.Value.
func (r *Period) Type() string { return "TIME" }

// Conversations deletes every hour what has not changed for the time clock.retain, while leads reports that this process has to do it. It returns when
// ctx ends.
func Conversations(ctx context.Context, leads func() bool, store erase.Store, bus erase.Bus, tenant, data string, clock *Clock, log *slog.Logger) {
	clock.agrees(ctx, store) // tells it in the log and in /readyz
	next := time.NewTimer(retainFirst)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		if !clock.agrees(ctx, store) {
			next.Reset(retainFirst)
			continue
		}
		if leads() {
			n, err := sweepRetained(ctx, store, bus, tenant, data, clock, log)
			if n > 0 {
				log.Info("old conversations and dead letters deleted", "count", n, "retain", clock.Retain)
			}
			if err != nil && ctx.Err() == nil {
				log.Warn("old conversations are not all deleted", "err", err)
			}
		}
		next.Reset(retainEvery)
	}
}

// sweepRetained deletes the conversations that have not changed for the time clock.retain and that wait for nothing, the oldest first, with what
// agents on this machine keep of them in the folder data, and the dead letters of the same age. It returns how many conversations it deleted. After
// each it sleeps for as long as the deletion took, to leave the store to the turns. A message that arrives in the few milliseconds between the last check of a conversation and its deletion is deleted with it.
func sweepRetained(
	ctx context.Context, store erase.Store, bus erase.Bus, tenant, data string, clock *Clock, log *slog.Logger,
) (int, error) {
	before := clock.read().Add(-clock.Retain)
	isOld := func(at time.Time) bool { return clock.dated(at).Before(before) }
	var old []storage.ContextInfo
	for info, err := range store.Contexts(ctx, tenant) {
		if err != nil {
			return 0, err
		}
		if isOld(info.Updated) {
			info.Title = "" // of many, keep only what is needed
			old = append(old, info)
		}
	}
	deleted, files := 0, &uploads{bus: bus, tenant: tenant, clock: clock}
	batch := &erase.Batch{Store: store, Bus: bus, Tenant: tenant}
	for _, info := range slices.Backward(old) {
		began := time.Now()
		conv, err := storage.Load(ctx, store, tenant, info.ContextID)
		if err == nil && conv.Version != info.Version { // the conversation has changed, or the listed time is of another one with this id: trust the log
			if conv, err = storage.LoadWhole(ctx, store, tenant, info.ContextID); err == nil {
				keepOutline(ctx, store, conv)
				info.Updated = conv.Updated()
			}
		}
		if dates, ok := store.(storage.Clock); ok && err == nil { // the clock of the process that made the entry may have been slow
			var at time.Time
			if at, err = dates.Stored(ctx, tenant, info.ContextID); err == nil && at.After(info.Updated) {
				info.Updated = at
			}
		}
		if err == nil && (!isOld(info.Updated) || erase.Busy(conv) != "") {
			continue
		}
		if err == nil {
			var from string
			if from, err = files.storedBy(ctx, conv); from != "" {
				log.Info("an old conversation stays for now: the message for a file that was just stored may still come", "context_id", info.ContextID, "from", from)
				continue
			}
		}
		if err == nil {
			if err = datadir.Forget(data, tenant, info.ContextID); err == nil { // first: the next sweep does not know of what is deleted
				_, err = batch.Conversation(ctx, info.ContextID)
			}
		}
		switch {
		case ctx.Err() != nil:
			return deleted, ctx.Err()
		case errors.Is(err, transport.ErrUnavailable):
			return deleted, err
		case err != nil:
			log.Warn("old conversation not deleted", "context_id", info.ContextID, "err", err)
			continue
		}
		deleted++
		if err := rest.For(ctx, time.Since(began)); err != nil {
			return deleted, err
		}
	}
	dead, ok := bus.(transport.DeadLetters)
	if !ok {
		return deleted, nil
	}
	for d, err := range dead.DeadLetters(ctx, tenant) {
		if err != nil {
			return deleted, err
		}
		if !isOld(d.Time) {
			break // the following ones are newer
		}
		if err := dead.RemoveDead(ctx, tenant, d.ID); err != nil {
			return deleted, err
		}
		deleted++
	}
	return deleted, nil
}

// keepOutline replaces an outline that does not match its conversation. Outlines are a cache: after an error the next call replaces it.
func keepOutline(ctx context.Context, store storage.Store, conv *conversation.Conversation) {
	if kept, ok := store.(storage.Outlines); ok {
		_ = kept.PutOutline(ctx, conv.Tenant, conv.ContextID, storage.OutlineOf(conv, "", conv.Updated()))
	}
}

// uploadsKnown is how long a list of files is used.
const uploadsKnown = time.Second

// uploads knows in which conversations files are being stored.
type uploads struct {
	bus    erase.Bus
	tenant string
	clock  *Clock

	listed time.Time
	files  map[string][]transport.Object // by conversation
}

// storedBy returns who has stored a chunk of a file in a conversation so recently that the message about it may still come; else "". The message of
// somebody who may not speak in it would be refused.
func (u *uploads) storedBy(ctx context.Context, conv *conversation.Conversation) (from string, err error) {
	keeper, ok := u.bus.(transport.FileKeeper)
	if !ok {
		return "", nil
	}
	if u.files == nil || time.Since(u.listed) > uploadsKnown {
		u.files, u.listed = map[string][]transport.Object{}, time.Now()
		for o, err := range keeper.Objects(ctx, u.tenant) {
			if err != nil {
				return "", err
			}
			u.files[o.ContextID] = append(u.files[o.ContextID], o)
		}
	}
	authenticated := ""
	if who, ok := u.bus.(transport.Sender); ok {
		_, authenticated = who.Sender()
	}
	for _, o := range u.files[conv.ContextID] {
		if authenticated != "" && !conv.Admits(o.From) {
			continue
		}
		at, _, err := keeper.Stored(ctx, o)
		switch {
		case errors.Is(err, transport.ErrNotFound):
		case err != nil:
			return "", err
		case u.clock.read().Sub(u.clock.dated(at)) < erase.LooseFor:
			return o.From, nil
		}
	}
	return "", nil
}

const (
	orphansFirst = 10 * time.Second // after the start, or after another process has stopped doing it
	orphansEvery = 5 * time.Minute
	// orphansPart limits the time spent on looking for orphaned files to one part in so many.
	orphansPart = 100
)

// Files removes the files that no conversation refers to, continuously while leads reports that this process has to do it. While damaged reports
// that some stored data is lost or set aside, it removes none: that data may refer to them, and may be restored. It passes the files that it leaves
// for now to left. It returns when ctx ends.
func Files(
	ctx context.Context, leads, damaged func() bool, store storage.Store, bus transport.FileKeeper, tenant string, clock *Clock,
	left func([]erase.Loose), log *slog.Logger,
) {
	var files *erase.Orphans
	told, sets := false, 0
	for pause := orphansFirst; rest.For(ctx, pause) == nil; {
		pause = orphansEvery
		if !leads() {
			files, pause = nil, orphansFirst
			continue
		}
		if damaged() {
			if !told {
				log.Warn("files of which nothing speaks are kept: some of what is stored is damaged or set aside; `cortex doctor` says what, and what to do")
			}
			files, told = nil, true
			continue
		}
		if !clock.agrees(ctx, store) {
			pause = orphansFirst
			continue
		}
		clock.read()
		if n := clock.times(); files == nil || n != sets { // other processes have seen earlier events, or the clock has changed
			files, sets = &erase.Orphans{Store: store, Bus: bus, Tenant: tenant, Now: clock.read, Dated: clock.dated}, n
		}
		began := time.Now()
		removed, err := files.Sweep(ctx)
		for _, of := range removed {
			log.Info("files deleted of which nothing speaks", "from", of.From, "count", of.Files, "size", transport.SizeText(of.Bytes))
		}
		if err != nil && ctx.Err() == nil {
			log.Warn("files of which nothing speaks are not all deleted", "err", err)
		}
		left(files.Left())
		pause = max(pause, orphansPart*time.Since(began))
	}
}

// deletionsEvery is how often the leader looks for deletions that were interrupted. A deletion that takes longer than that is done twice at once,
// which is harmless.
const deletionsEvery = 30 * time.Second

// Deletions finishes what interrupted deletions left, also in the folder data, while leads reports that this process has to do it. It returns when
// ctx ends.
func Deletions(ctx context.Context, leads func() bool, deletions *erase.Deletions, data string, log *slog.Logger) {
	for rest.For(ctx, deletionsEvery) == nil {
		if !leads() {
			continue
		}
		deleted, wentOn, err := deletions.Finish(ctx)
		for _, id := range deleted {
			err = errors.Join(err, datadir.Forget(data, deletions.Tenant, id))
			log.Info("interrupted deletion of a conversation finished", "context_id", id)
		}
		for _, id := range wentOn {
			log.Warn("the deletion of a conversation was interrupted, and it went on since: delete it again if nothing of it is to stay", "context_id", id)
		}
		if err != nil && ctx.Err() == nil {
			log.Warn("interrupted deletions are not all finished", "err", err)
		}
	}
}
