package agents

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"sigs.k8s.io/yaml"

	"github.com/cortex-orchestrator/cortex/transport"
)

// maxCardFile bounds a card file, which may have more comments and spaces than a card.
const maxCardFile = 4 * transport.MaxCard

// olderFields were fields of a card before A2A 1.0. They say how an agent is reached, which is the transport's matter here,
// so they are accepted and left out.
var olderFields = []string{
	"protocolVersion", "url", "preferredTransport", "additionalInterfaces", "supportsAuthenticatedExtendedCard", "supportsExtendedAgentCard", "security",
}

// LoadCard reads the card of an agent from a YAML or JSON file, as [ReadCard] does.
func LoadCard(path string) (*a2a.AgentCard, error) {
	f, err := os.Open(path)
	if err != nil {
		var pe *os.PathError
		if errors.As(err, &pe) {
			err = pe.Err
		}
		return nil, fmt.Errorf("card %s: %w", path, err)
	}
	defer f.Close()
	return ReadCard(filepath.Base(path), f)
}

// ReadCard reads the card of an agent in YAML or JSON: an A2A 1.0 AgentCard. Only the name is required; a card without
// skills gets one that follows from its name and description. Cards of earlier versions of A2A are read too. Errors are one
// line, begin with file, the name to speak of, and say what to do.
func ReadCard(file string, r io.Reader) (*a2a.AgentCard, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxCardFile+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	c, err := parseCard(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %s", file, line(err.Error(), 300))
	}
	return c, nil
}

func parseCard(b []byte) (*a2a.AgentCard, error) {
	if len(b) > maxCardFile {
		return nil, fmt.Errorf("is over %d KiB; a card is at most %d KiB", maxCardFile>>10, transport.MaxCard>>10)
	}
	var fields map[string]any
	if err := yaml.UnmarshalStrict(b, &fields); err != nil {
		return nil, fmt.Errorf("is not the YAML or JSON of a card: %s", plainYAMLError(err))
	}
	if err := checkFields("", fields, reflect.TypeFor[a2a.AgentCard](), olderFields); err != nil {
		return nil, err
	}
	skills, _ := fields["skills"].([]any)
	for i, s := range skills {
		m, ok := s.(map[string]any)
		if !ok {
			return nil, fmt.Errorf(`skills[%d] must have fields such as "name: ..." and "description: ..."`, i)
		}
		if err := checkFields(fmt.Sprintf("skills[%d].", i), m, reflect.TypeFor[a2a.AgentSkill](), []string{"security"}); err != nil {
			return nil, err
		}
	}
	if name, ok := fields["name"]; !ok || name == nil || name == "" {
		return nil, errors.New(`name is missing; add a line such as "name: agent_weather"`)
	}
	var c a2a.AgentCard
	if err := yaml.Unmarshal(b, &c); err != nil {
		var te *json.UnmarshalTypeError
		if errors.As(err, &te) && te.Field != "" {
			return nil, fmt.Errorf("%s must be %s, not %s", te.Field, kindName(te.Type), te.Value)
		}
		return nil, errors.New(plainYAMLError(err))
	}
	full := complete(&c)
	if err := transport.ValidateCard(full); err != nil {
		return nil, err
	}
	return full, nil
}

// checkFields returns an error for a key of m that is no field of t and not accepted otherwise.
func checkFields(at string, m map[string]any, t reflect.Type, accepted []string) error {
	var known []string
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		known = append(known, name)
	}
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		if slices.Contains(known, k) || slices.Contains(accepted, k) {
			continue
		}
		if near := nearest(k, known); near != "" {
			return fmt.Errorf("unknown field %q; did you mean %q?", at+k, at+near)
		}
		return fmt.Errorf("unknown field %q; remove it, or use one of %s", at+k, strings.Join(known, ", "))
	}
	return nil
}

// nearest returns the name that k was probably meant to be, or "".
func nearest(k string, names []string) string {
	plain := func(s string) string {
		return strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "").Replace(s))
	}
	best, bestDistance := "", 3
	for _, n := range names {
		if d := distance(plain(k), plain(n)); d < bestDistance && d <= len(n)/2 {
			best, bestDistance = n, d
		}
	}
	return best
}

// distance is the number of bytes to insert, delete or replace to get from a to b; 9 for long ones.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 9
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			d := diagonal
			if a[i] != b[j] {
				d++
			}
			diagonal = row[j+1]
			row[j+1] = min(d, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}

func kindName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a text"
	case reflect.Slice:
		return "a list"
	case reflect.Bool:
		return "true or false"
	default:
		return "a group of fields"
	}
}

// plainYAMLError leaves out the names of the libraries' steps.
func plainYAMLError(err error) string {
	s := line(err.Error(), 300)
	for _, p := range []string{"error unmarshaling JSON: ", "error converting YAML to JSON: ", "while decoding JSON: ", "json: ", "yaml: ", "unmarshal errors: "} {
		s = strings.ReplaceAll(s, p, "")
	}
	return s
}

// complete returns a copy of c with what every card needs: a description, a version, at least one skill, each with id, name
// and description, and no nil where a list is required.
func complete(c *a2a.AgentCard) *a2a.AgentCard {
	n := *c
	id, err := transport.AgentID(n.Name)
	if err != nil {
		return &n // not a legal card anyway
	}
	short := strings.TrimPrefix(id, "agent_")
	if n.Description == "" && len(n.Skills) > 0 {
		n.Description = n.Skills[0].Description
	}
	if n.Description == "" {
		n.Description = "The agent " + n.Name
	}
	if n.Version == "" {
		n.Version = "0.1.0"
	}
	n.Skills = slices.Clone(n.Skills)
	if len(n.Skills) == 0 {
		n.Skills = []a2a.AgentSkill{{ID: short, Name: short, Description: prefix(n.Description, 1024)}}
	}
	for i := range n.Skills {
		s := &n.Skills[i]
		if s.ID == "" {
			s.ID = strings.ToLower(strings.Join(strings.Fields(s.Name), "_"))
		}
		if s.Name == "" {
			s.Name = s.ID
		}
		if s.Description == "" {
			s.Description = s.Name
		}
		if s.Tags == nil {
			s.Tags = []string{}
		}
	}
	if n.SupportedInterfaces == nil {
		n.SupportedInterfaces = []*a2a.AgentInterface{}
	}
	if len(n.DefaultInputModes) == 0 {
		n.DefaultInputModes = []string{"text/plain"}
	}
	if len(n.DefaultOutputModes) == 0 {
		n.DefaultOutputModes = []string{"text/plain"}
	}
	return &n
}
