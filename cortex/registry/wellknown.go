package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/internal/document"
	"github.com/cortex-orchestrator/cortex/transport"
)

// maxWellKnown bounds a file of well-known agents, in bytes.
const maxWellKnown = 1 << 20

const wantList = `want a list of agents: [{"agentName": …}, …]`

// WellKnown is an agent that is listed, and may be given work, even when it does not run: such as one that is started for its work and stops
// afterwards.
type WellKnown struct {
	ID   string // its address: see [transport.AgentID]
	Card *a2a.AgentCard
}

// LoadWellKnown reads a file of well-known agents; see [ReadWellKnown]. The file may be a pipe, which LoadWellKnown reads to its end or until ctx
// ends.
func LoadWellKnown(ctx context.Context, path string) ([]WellKnown, error) {
	f, err := document.Open(ctx, path, maxWellKnown+1)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was read only
	list, err := ReadWellKnown(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return list, nil
}

// ReadWellKnown reads well-known agents from JSON, a list of objects:
//
//	[{"agentName": "Research", "description": "Searches the web.", "version": "1.0",
//	  "skills": [{"id": "research", "name": "Research", "description": "Finds out.", "examples": ["…"], "tags": ["…"]}]}]
//
// An entry may also be an A2A agent card, which has "name" instead of "agentName", a card with a field "spec", or an AgentSpec; see [agentcard.Read].
// The list may have at most 1 MiB, and an entry at most [transport.MaxCard] bytes. An error names the entry, counted from 1, and the field.
func ReadWellKnown(r io.Reader) ([]WellKnown, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxWellKnown+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxWellKnown {
		return nil, fmt.Errorf("the list of well-known agents is over %d bytes", maxWellKnown)
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	var entries []json.RawMessage
	if err := json.Unmarshal(data, &entries); err != nil {
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			line := 1 + bytes.Count(data[:min(int(syntax.Offset), len(data))], []byte("\n"))
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		return nil, errors.New(wantList)
	}
	if entries == nil { // the text is null
		return nil, errors.New(wantList)
	}
	if err := document.CheckJSON(data); err != nil {
		return nil, err
	}
	list := make([]WellKnown, 0, len(entries))
	at := map[string]int{}
	for i, raw := range entries {
		w, err := readWellKnown(raw)
		if err != nil {
			return nil, withLine(fmt.Errorf("entry %d: %w", i+1, err), lineOfEntry(data, i))
		}
		if first, ok := at[w.ID]; ok {
			return nil, withLine(fmt.Errorf("entry %d: %q is there already, as entry %d", i+1, w.ID, first), lineOfEntry(data, i))
		}
		at[w.ID] = i + 1
		list = append(list, w)
	}
	return list, nil
}

var inEntry = regexp.MustCompile(` \(line ([0-9]+)\)$`)

// withLine adds a line number to an error of an entry that begins at line. The error may have a line number of its own, counted from the entry's.
func withLine(err error, line int) error {
	text := err.Error()
	if m := inEntry.FindStringSubmatch(text); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil {
			text, line = strings.TrimSuffix(text, m[0]), line+n-1
		}
	}
	return fmt.Errorf("%s (line %d)", text, line)
}

// lineOfEntry returns the line in data on which entry i of a list begins.
func lineOfEntry(data []byte, i int) int {
	d := json.NewDecoder(bytes.NewReader(data))
	if _, err := d.Token(); err != nil {
		return 0
	}
	var entry json.RawMessage
	for range i + 1 {
		if err := d.Decode(&entry); err != nil {
			return 0
		}
	}
	return 1 + bytes.Count(data[:int(d.InputOffset())-len(entry)], []byte("\n"))
}

func readWellKnown(raw json.RawMessage) (WellKnown, error) {
	if len(raw) > transport.MaxCard {
		return WellKnown{}, fmt.Errorf("%d bytes, at most %d are allowed", len(raw), transport.MaxCard)
	}
	var names struct {
		AgentName *string         `json:"agentName"`
		Name      *string         `json:"name"`
		AgentType *string         `json:"agent_type"`
		Spec      json.RawMessage `json:"spec"`
	}
	if err := json.Unmarshal(raw, &names); err != nil {
		return WellKnown{}, describe(err)
	}
	var card *a2a.AgentCard
	var err error
	switch {
	case names.AgentName != nil && names.Name != nil:
		return WellKnown{}, errors.New(`has both "agentName" and "name": give one`)
	case names.AgentName != nil:
		card, err = readPlain(raw)
	case names.AgentType != nil, names.Spec != nil: // they may restrict the tenants of the agent
		card, _, err = agentcard.Read("card", raw)
	case names.Name != nil:
		card = &a2a.AgentCard{}
		err = describe(json.Unmarshal(raw, card))
	default:
		return WellKnown{}, errors.New(`field "agentName" is missing`)
	}
	if err != nil {
		return WellKnown{}, err
	}
	if err := transport.ValidateCard(card); err != nil {
		return WellKnown{}, err
	}
	id, err := transport.AgentID(card.Name)
	if err != nil {
		return WellKnown{}, err
	}
	if transport.IsReserved(id) {
		return WellKnown{}, fmt.Errorf("%q is the orchestrator's own name", id)
	}
	return WellKnown{id, card}, nil
}

// readPlain reads the form with "agentName". Since it is Cortex's own form, unknown fields are errors; an A2A card may have fields that this version
// does not know.
func readPlain(raw json.RawMessage) (*a2a.AgentCard, error) {
	var plain struct {
		AgentName   string            `json:"agentName"`
		Description string            `json:"description"`
		Version     string            `json:"version"`
		Skills      []json.RawMessage `json:"skills"`
	}
	if err := strict(raw, &plain); err != nil {
		return nil, err
	}
	card := &a2a.AgentCard{
		Name: plain.AgentName, Description: plain.Description, Version: plain.Version,
		SupportedInterfaces: []*a2a.AgentInterface{}, DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
		Skills: []a2a.AgentSkill{},
	}
	for i, s := range plain.Skills {
		var skill struct {
			ID          string   `json:"id"`
			Name        string   `json:"name"`
			Description string   `json:"description"`
			Examples    []string `json:"examples"`
			Tags        []string `json:"tags"`
		}
		if err := strict(s, &skill); err != nil {
			return nil, fmt.Errorf("skill %d: %w", i+1, err)
		}
		if skill.Tags == nil {
			skill.Tags = []string{} // A2A requires a list
		}
		card.Skills = append(card.Skills, a2a.AgentSkill{
			ID: skill.ID, Name: skill.Name, Description: skill.Description, Examples: skill.Examples, Tags: skill.Tags,
		})
	}
	return card, nil
}

func strict(raw json.RawMessage, v any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return describe(d.Decode(v))
}

// describe rewords an error of encoding/json for the author of the file.
func describe(err error) error {
	if err == nil {
		return nil
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		want := "an object"
		switch wrong.Type.Kind() {
		case reflect.String:
			want = "a string"
		case reflect.Slice, reflect.Array:
			want = "a list"
		case reflect.Bool:
			want = "true or false"
		case reflect.Int, reflect.Int64, reflect.Float64:
			want = "a number"
		}
		if wrong.Field == "" {
			return fmt.Errorf("is a JSON %s, want %s", wrong.Value, want)
		}
		return fmt.Errorf("field %q is a JSON %s, want %s", wrong.Field, wrong.Value, want)
	}
	if field, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return fmt.Errorf("field %.100s is unknown", field)
	}
	return err
}
