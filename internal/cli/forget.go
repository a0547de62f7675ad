package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/cortex-orchestrator/cortex/cortex/router"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/cli/typed"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

func (e *env) newForget(asJSON *bool) *cobra.Command {
	return &cobra.Command{
		Use:   "forget ID",
		Short: "Forget what was learned of an agent",
		Long: `Forget which requests an agent did well, so that Cortex chooses it by its card alone again. The agent stays, and learning goes
on; cortex serve --learning=false learns nothing.`,
		Example: "  cortex agents forget agent_weather", Args: typed.Exact("ID"), ValidArgsFunction: first(e.completeIDs(agentIDs)),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, id := cmd.Context(), args[0]
			if err := transport.CheckID(id); err != nil {
				return usagef("%s is no agent's id: %w", prompt.Clean(id, 64), err)
			}
			l, err := e.settings.mustJoin(ctx, "forget", e.commandLog(slog.LevelError), nil)
			if err != nil {
				return err
			}
			defer l.Close()
			notes, err := ability[storage.Notes](l.store, "this store keeps no notes, and so nothing is learned")
			if err != nil {
				return err
			}
			n, err := notes.Note(ctx, l.tenant, storage.NoteEvidence, id)
			if err == nil { // also delete a note that is missing: an interrupted deletion may have left older versions of it in the files
				err = cmp.Or(notes.DeleteNote(ctx, l.tenant, storage.NoteEvidence, id, 0), notes.DeleteNote(ctx, l.tenant, storage.NoteRecord, id, 0))
			}
			if err != nil {
				return forgetError(err)
			}
			// Tell a running Cortex in any case: its memory may have what is deleted already.
			if err := l.bus.Publish(ctx, transport.Control(l.tenant, transport.Cortex), &transport.Event{
				ID: uuid.NewString(), Time: time.Now(), From: "user", Tenant: l.tenant, Payload: &transport.Forget{AgentID: id},
			}); err != nil {
				if n.Version == 0 {
					return forgetError(err)
				}
				return fmt.Errorf("it is forgotten in the store, but the running Cortex could not be notified: %w", err)
			}
			var learned []router.Evidence
			err = json.Unmarshal(n.Value, &learned)
			if *asJSON {
				return writeJSON(e, forgotJSON{id, len(learned)})
			}
			if err != nil || len(learned) == 0 {
				e.say("nothing was learned of %s", id)
				return nil
			}
			e.tell("forgot what was learned of %s: requests that it did, %d", id, len(learned))
			return nil
		},
	}
}

// isForbidden reports whether the server refused a request for the lack of rights. JetStream's refusals have no error of their own.
func isForbidden(err error) bool {
	return errors.Is(err, transport.ErrForbidden) || err != nil && strings.Contains(err.Error(), "code=403")
}

// forgotJSON says how many requests are forgotten that an agent did.
type forgotJSON struct {
	Agent  string `json:"agent"`
	Forgot int    `json:"forgot"`
}

// forgetError adds to an error what to do about it.
func forgetError(err error) error {
	if isForbidden(err) {
		return fmt.Errorf("%w: give the orchestrator's credentials with --creds to change what was learned", transport.ErrForbidden)
	}
	return err
}
