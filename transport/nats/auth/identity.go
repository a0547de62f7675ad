package auth

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cortex-orchestrator/cortex/transport"
)

// Role is a user's role in a tenant.
type Role string

// The roles.
const (
	Orchestrator Role = "orchestrator" // a running Cortex, and those who administer the tenant
	Agent        Role = "agent"
	Person       Role = "user"
)

// Identity says for whom credentials are.
type Identity struct {
	Role   Role
	Tenant string // "" is the default tenant
	// ID is the Event.From of the user's events: an agent's id, "user", "user:NAME", or [transport.Cortex].
	ID      string
	Expires time.Time // zero: no expiry
	File    string    // the file of the credentials
}

// String returns a name for use in a sentence.
func (i *Identity) String() string {
	if i == nil {
		return "nobody of Cortex"
	}
	who := string(i.Role)
	if i.Role == Agent || i.ID != "user" && i.Role == Person {
		who += fmt.Sprintf(" %q", strings.TrimPrefix(i.ID, personPrefix))
	}
	if i.Tenant != "" {
		who += fmt.Sprintf(" of tenant %q", i.Tenant)
	}
	return who
}

// Same reports whether both are the same sender of the same tenant.
func (i *Identity) Same(as *Identity) bool {
	return i.Role == as.Role && i.Tenant == as.Tenant && i.ID == as.ID
}

// Limited reports whether the user may publish only through the gateway.
func (i *Identity) Limited() bool { return i != nil && (i.Role == Agent || i.Role == Person) }

const (
	personPrefix  = "user:"
	namePrefix    = "cortex"
	gatewayPrefix = "cortex.v1.door."
	maxFileName   = 200 // bytes of an escaped id
)

// name returns the user's name for the server and its logs, which parseName parses.
func (i *Identity) name() string {
	return strings.Join([]string{namePrefix, string(i.Role), transport.Escape(i.Tenant), transport.Escape(i.ID)}, ".")
}

// parseName returns nil for a name that this package did not make.
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

// check returns an error for an invalid identity.
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

// Gateway returns the prefix of every subject that an agent or a person publishes to, with its final dot: cortex.v1.door.<tenant>.<role>.<id>.
func Gateway(i *Identity) string {
	return GatewayOf(i.Tenant) + string(i.Role) + "." + transport.Escape(i.ID) + "."
}

// GatewayOf returns the common prefix of all gateways of a tenant, with its final dot.
func GatewayOf(tenant string) string { return gatewayPrefix + transport.Escape(tenant) + "." }

// Caller parses a subject below [GatewayOf] into the sender and the intended subject. who is nil for a prefix that Gateway does not make.
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

// Replies returns the prefix of the subjects of all answers to i; the client appends a dot and a token.
func Replies(i *Identity) string { return RepliesOf(i.Role) + transport.Escape(i.ID) }

// RepliesOf returns the common prefix of the subjects of all answers to agents, or to people, with its final dot.
func RepliesOf(r Role) string { return "_INBOX." + string(r) + "." }
