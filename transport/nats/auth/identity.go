package auth

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cortex-orchestrator/cortex/transport"
)

// Role is what somebody is to a tenant.
type Role string

// The roles.
const (
	Orchestrator Role = "orchestrator" // a running Cortex, and whoever administers the tenant
	Agent        Role = "agent"
	Person       Role = "user"
)

// Identity is who credentials are for.
type Identity struct {
	Role   Role
	Tenant string // "" is the default tenant
	// ID is whom they send as, Event.From: an agent's id, "user" or "user:NAME", and [transport.Cortex].
	ID      string
	Expires time.Time // zero: never
	File    string    // where they are
}

// String names who it is in a sentence.
func (i *Identity) String() string {
	who := string(i.Role)
	if i.Role == Agent || i.ID != "user" && i.Role == Person {
		who += fmt.Sprintf(" %q", strings.TrimPrefix(i.ID, personPrefix))
	}
	if i.Tenant != "" {
		who += fmt.Sprintf(" of tenant %q", i.Tenant)
	}
	return who
}

// Limited reports whether everything has to go through the gateway.
func (i *Identity) Limited() bool { return i != nil && (i.Role == Agent || i.Role == Person) }

const (
	personPrefix  = "user:"
	namePrefix    = "cortex"
	gatewayPrefix = "cortex.v1.door."
	maxFileName   = 200 // bytes of an escaped id
)

// name is what the server and its logs call it, and how it is read back.
func (i *Identity) name() string {
	return strings.Join([]string{namePrefix, string(i.Role), transport.Escape(i.Tenant), transport.Escape(i.ID)}, ".")
}

// parseName returns nil for the name of a user that this package did not make.
func parseName(name string) *Identity {
	token := strings.Split(name, ".")
	if len(token) != 4 || token[0] != namePrefix {
		return nil
	}
	tenant, err1 := transport.Unescape(token[2])
	id, err2 := transport.Unescape(token[3])
	i := &Identity{Role: Role(token[1]), Tenant: tenant, ID: id}
	if err1 != nil || err2 != nil || i.check() != nil {
		return nil
	}
	return i
}

// check returns what is wrong with an identity.
func (i *Identity) check() error {
	if err := checkTenant(i.Tenant); err != nil {
		return err
	}
	if err := transport.CheckID(i.ID); err != nil {
		return fmt.Errorf("id %w", err)
	}
	if len(transport.Escape(i.ID)) > maxFileName {
		return errors.New("id is too long for the name of a file")
	}
	person := i.ID == "user" || strings.HasPrefix(i.ID, personPrefix)
	switch {
	case i.Role == Orchestrator && i.ID == transport.Cortex, i.Role == Person && person && i.ID != personPrefix:
		return nil
	case i.Role == Agent && transport.IsReserved(i.ID):
		return fmt.Errorf("the name %s is the orchestrator's own: choose another", i.ID)
	case i.Role == Agent && person:
		return fmt.Errorf("the name %s is for people: choose another", i.ID)
	case i.Role == Agent:
		return nil
	}
	return fmt.Errorf("%q is no %s", i.ID, i.Role)
}

func checkTenant(tenant string) error {
	if tenant == "" {
		return nil
	}
	if err := transport.CheckID(tenant); err != nil {
		return fmt.Errorf("tenant %w", err)
	}
	if len(transport.Escape(tenant)) > maxFileName {
		return errors.New("tenant is too long for the name of a folder")
	}
	return nil
}

// Gateway returns what stands before every subject that an agent or a person publishes to, with its final dot:
// cortex.v1.door.<tenant>.<role>.<id>.
func Gateway(i *Identity) string {
	return GatewayOf(i.Tenant) + string(i.Role) + "." + transport.Escape(i.ID) + "."
}

// GatewayOf returns what all gateways of a tenant begin with, with its final dot.
func GatewayOf(tenant string) string { return gatewayPrefix + transport.Escape(tenant) + "." }

// Caller reads who a subject behind [GatewayOf] is from, and the subject that was meant. It returns nil for one that Gateway did not
// make.
func Caller(tenant, subject string) (who *Identity, meant string) {
	rest, ok := strings.CutPrefix(subject, GatewayOf(tenant))
	token := strings.SplitN(rest, ".", 3)
	if !ok || len(token) != 3 || token[2] == "" {
		return nil, ""
	}
	id, err := transport.Unescape(token[1])
	who = &Identity{Role: Role(token[0]), Tenant: tenant, ID: id}
	if err != nil || !who.Limited() || who.check() != nil {
		return nil, ""
	}
	return who, token[2]
}

// Replies returns what the subjects of all answers to i begin with; the rest, behind a dot, is the client's.
func Replies(i *Identity) string { return RepliesOf(i.Role) + transport.Escape(i.ID) }

// RepliesOf returns what the subjects of all answers to agents, or to people, begin with, with its final dot.
func RepliesOf(r Role) string { return "_INBOX." + string(r) + "." }
