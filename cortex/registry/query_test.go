package registry_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	gocmp "github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/transport"
)

// profile describes an agent of a test.
type profile struct {
	id, version, description string
	skills                   []a2a.AgentSkill
	spec                     agentcard.Spec
	draining                 bool
}

func (k profile) event() *transport.Event {
	card := agentcard.Attach(&a2a.AgentCard{Name: k.id, Version: k.version, Description: k.description, Skills: k.skills}, &k.spec)
	return cardEvent(&transport.Card{AgentID: k.id, Instance: "1", Card: card, TTL: ttl, Draining: k.draining})
}

// registryOf returns a registry of tenant t with these agents.
func registryOf(agents ...profile) *registry.Registry {
	r := registry.New(registry.Config{Tenant: "t"})
	for _, k := range agents {
		r.Apply(k.event())
	}
	return r
}

func ids(records []*registry.Record) []string {
	list := make([]string, len(records))
	for i, r := range records {
		list[i] = r.ID
	}
	return list
}

var shop = []profile{
	{
		id: "catalog", version: "1.2.0", description: "Finds products in the Über-Katalog",
		skills: []a2a.AgentSkill{
			{ID: "product.search", Name: "Product search", Description: "Searches by keyword", Tags: []string{"Search", "shop"}},
			{ID: "product.compare", Name: "Compare", Description: "Compares prices"},
		},
		spec: agentcard.Spec{OwnerTeam: "Shopping", Labels: map[string]string{"tier": "core", "domain": "catalog"}},
	},
	{
		id: "catalog-old", version: "0.9.3", description: "The one before", draining: true,
		skills: []a2a.AgentSkill{{ID: "product.search", Name: "Product search", Tags: []string{"shop"}}},
		spec:   agentcard.Spec{OwnerTeam: "shopping", Tags: []string{"legacy"}},
	},
	{
		id: "orders", version: "2.0.0-beta.1", description: "Tells where an order is", skills: []a2a.AgentSkill{{ID: "order.status", Name: "Status"}},
		spec: agentcard.Spec{OwnerTeam: "orders", Labels: map[string]string{"tier": "edge"}, Tags: []string{"shop", "v=1"}},
	},
	{id: "poet", version: "latest", description: "Writes poems", skills: []a2a.AgentSkill{{Name: "Haiku", Tags: []string{"art"}}}},
	{id: "secret", version: "1.9.9", description: "For another tenant", spec: agentcard.Spec{TenantScope: "u"}},
	{id: "zeta", version: "v2.1", description: "Does the last things"},
}

func TestFind(t *testing.T) {
	for _, test := range []struct {
		name  string
		query registry.Query
		want  string
	}{
		{"all", registry.Query{}, "catalog catalog-old orders poet secret zeta"},
		{"ids, whatever their order", registry.Query{IDs: []string{"zeta", "nobody", "catalog"}}, "catalog zeta"},
		{"ability by id", registry.Query{Ability: "product.search"}, "catalog catalog-old"},
		{"ability by id has a case", registry.Query{Ability: "Product.Search"}, ""},
		{"ability by name has none", registry.Query{Ability: "product SEARCH"}, "catalog catalog-old"},
		{"ability of a skill without an id", registry.Query{Ability: "haiku"}, "poet"},
		{"part of an ability", registry.Query{Ability: "product"}, ""},
		{"tag of a skill", registry.Query{Tags: []string{"search"}}, "catalog"},
		{"tag of a skill or of the agent", registry.Query{Tags: []string{"SHOP"}}, "catalog catalog-old orders"},
		{"tags are all needed", registry.Query{Tags: []string{"shop", "legacy"}}, "catalog-old"},
		{"label's key", registry.Query{Tags: []string{"Tier"}}, "catalog orders"},
		{"label", registry.Query{Tags: []string{"tier=CORE"}}, "catalog"},
		{"label's value alone", registry.Query{Tags: []string{"core"}}, ""},
		{"label with a part of its value", registry.Query{Tags: []string{"tier=cor"}}, ""},
		{"label with nothing as value", registry.Query{Tags: []string{"tier="}}, ""},
		{"tag that looks like a label", registry.Query{Tags: []string{"v=1"}}, "orders"},
		{"label and tag", registry.Query{Tags: []string{"tier=edge", "shop"}}, "orders"},
		{"word of an id", registry.Query{Text: "zet"}, "zeta"},
		{"word of a description", registry.Query{Text: "POEM"}, "poet"},
		{"word of a skill's id", registry.Query{Text: "order.st"}, "orders"},
		{"word of a skill's name", registry.Query{Text: "haiku"}, "poet"},
		{"word of a skill's description", registry.Query{Text: "prices"}, "catalog"},
		{"word of a skill's tag", registry.Query{Text: "art"}, "poet"},
		{"word of a tag", registry.Query{Text: "legac"}, "catalog-old"},
		{"word of a label", registry.Query{Text: "edge"}, "orders"},
		{"word that is not ASCII", registry.Query{Text: "über"}, "catalog"},
		{"words from different places", registry.Query{Text: " keyword\tcompares  KATALOG "}, "catalog"},
		{"words are all needed", registry.Query{Text: "keyword poems"}, ""},
		{"space only", registry.Query{Text: " "}, "catalog catalog-old orders poet secret zeta"},
		{"version", registry.Query{Version: ">=1.2.0 <2.0.0"}, "catalog secret"},
		{"version with a comma", registry.Query{Version: ">=1.2.0, <2.0.0"}, "catalog secret"},
		{"version of two parts", registry.Query{Version: ">=2"}, "zeta"},
		{"pre-release where it is asked for", registry.Query{Version: ">=2.0.0-0"}, "orders zeta"},
		{"versions of which one is enough", registry.Query{Version: "~0.9.1 || ^2"}, "catalog-old zeta"},
		{"tenant", registry.Query{Tenant: "t"}, "catalog catalog-old orders poet zeta"},
		{"tenant in whose scope it is, in another registry", registry.Query{Tenant: "u"}, ""},
		{"state", registry.Query{States: []registry.State{registry.StateDraining}}, "catalog-old"},
		{"states", registry.Query{States: []registry.State{"refused", "draining"}, Tags: []string{"shop"}}, "catalog-old"},
		{"status", registry.Query{States: []registry.State{"ready"}, Ability: "product.search"}, "catalog"},
		{"owner", registry.Query{Owner: "SHOPPING"}, "catalog catalog-old"},
		{"part of an owner", registry.Query{Owner: "shop"}, ""},
		{"limit", registry.Query{Limit: 2}, "catalog catalog-old"},
		{"limit of what fits", registry.Query{Limit: 2, Version: "*"}, "catalog catalog-old"},
		{"after one", registry.Query{After: "poet"}, "secret zeta"},
		{"after one that has gone", registry.Query{After: "p", Limit: 1}, "poet"},
		{"after the last", registry.Query{After: "zeta"}, ""},
		{"everything", registry.Query{
			IDs: []string{"catalog", "orders"}, Ability: "product.compare", Tags: []string{"shop", "domain=catalog"}, Text: "prices",
			Version: "^1.2", Tenant: "t", States: []registry.State{"active"}, Owner: "shopping", After: "a", Limit: 1,
		}, "catalog"},
	} {
		t.Run(test.name, func(t *testing.T) {
			found, err := registryOf(shop...).Snapshot().Find(test.query)
			if got := strings.Join(ids(found), " "); err != nil || got != test.want {
				t.Errorf("Find(%+v) = %q, %v, want %q", test.query, got, err, test.want)
			}
		})
	}
}

func TestQueryErrors(t *testing.T) {
	long := strings.Repeat("x", 1001)
	for _, test := range []struct {
		query registry.Query
		want  string
	}{
		{registry.Query{Version: ">=1.x.y"}, `version constraint ">=1.x.y" cannot be read; write one such as ">=1.2.0 <2.0.0"`},
		{registry.Query{Version: "new\nest"}, `version constraint "new\nest" cannot be read; write one such as ">=1.2.0 <2.0.0"`},
		{registry.Query{States: []registry.State{"active", "asleep"}}, `state "asleep": it is one of unknown, active, `},
		{registry.Query{States: []registry.State{"gone"}}, `state "gone": it is one of `},
		{registry.Query{Limit: -1}, `limit -1: it must be at least 0, which is no limit`},
		{registry.Query{Tags: []string{"a", ""}}, `a tag is empty`},
		{registry.Query{Tags: make([]string, 65)}, `65 tags: at most 64 are allowed`},
		{registry.Query{IDs: make([]string, 1001)}, `1001 ids: at most 1000 are allowed`},
		{registry.Query{Text: strings.Repeat("x ", 33)}, `text has more than 32 words`},
		{registry.Query{Text: long}, `text is 1001 bytes long, at most 1000 are allowed`},
		{registry.Query{Ability: long}, `ability is 1001 bytes long`},
		{registry.Query{Version: long}, `version constraint is 1001 bytes long`},
		{registry.Query{Tenant: long}, `tenant is 1001 bytes long`},
		{registry.Query{Owner: long}, `owner is 1001 bytes long`},
		{registry.Query{After: long}, `after is 1001 bytes long`},
		{registry.Query{Tags: []string{long}}, `tag is 1001 bytes long`},
		{registry.Query{IDs: []string{long}}, `id is 1001 bytes long`},
	} {
		err := test.query.Validate()
		if err == nil || !strings.HasPrefix(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("Validate() of %+v = %v, want %s", test.query, err, test.want)
		}
		if found, findErr := registryOf(shop...).Snapshot().Find(test.query); found != nil || fmt.Sprint(findErr) != fmt.Sprint(err) {
			t.Errorf("Find(%+v) = %v, %v, want the error of Validate", test.query, found, findErr)
		}
	}
}

// TestPages checks that pages of any size make up the whole list, even when agents come and go in between.
func TestPages(t *testing.T) {
	r := registryOf(shop...)
	for limit := 1; limit < 8; limit++ {
		var got []string
		q := registry.Query{Limit: limit}
		for {
			page, err := r.Snapshot().Find(q)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			got = append(got, ids(page)...)
			q.After = page[len(page)-1].ID
		}
		if want := ids(r.Snapshot().Agents()); !slices.Equal(got, want) {
			t.Errorf("pages of %d = %v, want %v", limit, got, want)
		}
	}
	r.Apply(cardEvent(&transport.Card{AgentID: "catalog-old", Instance: "1", Gone: transport.GoneLeft}))
	r.Apply(profile{id: "a-new-one"}.event())
	page, err := r.Snapshot().Find(registry.Query{After: "catalog-old", Limit: 2})
	if got := strings.Join(ids(page), " "); err != nil || got != "orders poet" {
		t.Errorf("the page behind one that left = %s, %v, want orders poet", got, err)
	}
}

// TestFindIsNaive compares Find with a simple filter.
func TestFindIsNaive(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	pick := func(from ...string) string { return from[rng.IntN(len(from))] }
	some := func(most int, f func() string) (list []string) {
		for range rng.IntN(most + 1) {
			list = append(list, f())
		}
		return list
	}
	text := func() string {
		letters := []rune("aAbBzZeEtTäÄ. -_")
		runes := make([]rune, rng.IntN(12))
		for i := range runes {
			runes[i] = letters[rng.IntN(len(letters))]
		}
		return string(runes)
	}
	tag := func() string { return pick("a", "A", "b", "c", "k=v", "tier") }
	version := func() string { return pick("1.0.0", "1.2.3", "2.0.0", "2.0.0-rc.1", "3", "none", "") }
	labels := []map[string]string{nil, {"k": "v"}, {"tier": "V"}, {"k": "w", "a": "äb"}}

	var agents []profile
	for i := range 300 {
		k := profile{
			id: fmt.Sprintf("%s-%03d", pick("a", "B", "zé"), i), version: version(), description: text(), draining: rng.IntN(3) == 0,
			spec: agentcard.Spec{Tags: some(2, tag), Labels: labels[rng.IntN(4)], OwnerTeam: pick("", "x", "X", "y"), TenantScope: pick("", "", "t", "u")},
		}
		for range rng.IntN(4) {
			k.skills = append(k.skills, a2a.AgentSkill{
				ID: pick("", "s1", "s2", "S1"), Name: pick("s1", "S2", "n"), Description: text(), Tags: some(2, tag),
			})
		}
		agents = append(agents, k)
	}
	snapshot := registryOf(agents...).Snapshot()
	found := 0
	for range 3000 {
		var q registry.Query
		for range 1 + rng.IntN(3) {
			switch rng.IntN(10) {
			case 0:
				q.IDs = some(30, func() string { return agents[rng.IntN(len(agents))].id })
			case 1:
				q.Ability = pick("s1", "S1", "s2", "n", "N", "x")
			case 2:
				q.Tags = some(2, func() string { return pick("a", "b", "C", "k=v", "K=V", "k", "tier=v", "k=") })
			case 3, 4:
				q.Text = strings.Join(some(2, text), " ")
			case 5:
				q.Version = pick(slices.Sorted(maps.Keys(versionsOf))...)
			case 6:
				q.Tenant = pick("t", "u")
			case 7:
				q.States = []registry.State{registry.State(pick("active", "draining", "ready", "unknown", "refused"))}
			case 8:
				q.Owner = pick("x", "Y")
			case 9:
				q.After, q.Limit = pick("a", "a-100", "zz"), rng.IntN(9)
			}
		}
		got, err := snapshot.Find(q)
		if err != nil {
			t.Fatalf("Find(%+v): %v", q, err)
		}
		if d := gocmp.Diff(naive(snapshot.Agents(), q), ids(got)); d != "" {
			t.Fatalf("Find(%+v) differs (-want +got):\n%s", q, d)
		}
		found += len(got)
	}
	if found < 3000 {
		t.Errorf("the queries found %d agents: too few to prove anything", found)
	}
}

// versionsOf has the versions in TestFindIsNaive that match each constraint.
var versionsOf = map[string][]string{
	">=1.2.0 <2.0.0": {"1.2.3"},
	"*":              {"1.0.0", "1.2.3", "2.0.0", "3"},
	"^1":             {"1.0.0", "1.2.3"},
	">=2.0.0-0":      {"2.0.0-rc.1", "2.0.0", "3"},
	"<2.0.0 || 3.x":  {"1.0.0", "1.2.3", "3"},
	"!=1.0.0":        {"1.2.3", "2.0.0", "3"},
}

// naive finds q's agents with a simple filter.
func naive(agents []*registry.Record, q registry.Query) []string {
	list := []string{}
	for _, r := range agents {
		var tags, abilities, says []string
		add := func(to *[]string, texts ...string) {
			for _, s := range texts {
				*to = append(*to, strings.ToLower(s))
			}
		}
		add(&says, r.ID, r.Card.Name, r.Card.Description)
		add(&says, r.Spec.Tags...)
		add(&tags, r.Spec.Tags...)
		for k, v := range r.Spec.Labels {
			add(&tags, k, k+"="+v)
			add(&says, k, v)
		}
		for _, s := range r.Card.Skills {
			abilities = append(abilities, cmp.Or(s.ID, s.Name))
			add(&abilities, s.Name)
			add(&tags, s.Tags...)
			add(&says, s.ID, s.Name, s.Description)
			add(&says, s.Tags...)
		}
		ok := len(q.IDs) == 0 || slices.Contains(q.IDs, r.ID)
		ok = ok && (q.Ability == "" || slices.Contains(abilities, q.Ability) || slices.Contains(abilities, strings.ToLower(q.Ability)) &&
			slices.ContainsFunc(r.Card.Skills, func(s a2a.AgentSkill) bool { return strings.EqualFold(s.Name, q.Ability) }))
		for _, tag := range q.Tags {
			ok = ok && slices.Contains(tags, strings.ToLower(tag))
		}
		for _, word := range strings.Fields(strings.ToLower(q.Text)) {
			ok = ok && slices.ContainsFunc(says, func(s string) bool { return strings.Contains(s, word) })
		}
		if q.Version != "" {
			ok = ok && slices.Contains(versionsOf[q.Version], r.Card.Version)
		}
		ok = ok && (q.Tenant == "" || q.Tenant == "t" && r.Spec.TenantScope != "u")
		for _, s := range q.States {
			ok = ok && (r.State == s || s == "ready" && r.State == registry.StateActive)
		}
		ok = ok && (q.Owner == "" || strings.EqualFold(q.Owner, r.Spec.OwnerTeam))
		if ok && r.ID > q.After && (q.Limit == 0 || len(list) < q.Limit) {
			list = append(list, r.ID)
		}
	}
	return list
}

// BenchmarkFind searches 10,000 agents without a match.
func BenchmarkFind(b *testing.B) {
	var agents []profile
	for i := range benchAgents {
		k := profile{
			id: fmt.Sprintf("agent-%05d", i), version: fmt.Sprintf("%d.%d.0", i%7, i%10),
			description: "An agent of ordinary abilities that books rooms, writes letters and answers questions about invoices and orders of customers",
			spec:        agentcard.Spec{OwnerTeam: "team", Tags: []string{"office", "letters"}, Labels: map[string]string{"tier": "core", "domain": "office"}},
		}
		for s := range 3 {
			k.skills = append(k.skills, a2a.AgentSkill{
				ID: fmt.Sprintf("skill-%d-%d", i%1000, s), Name: "Answer questions", Tags: []string{"questions", "customers"},
				Description: "Answers a question of a customer about an order, with the time when it is going to arrive",
			})
		}
		agents = append(agents, k)
	}
	snapshot := registryOf(agents...).Snapshot()
	for name, q := range map[string]registry.Query{
		"text": {Text: "hotel"}, "text of two words": {Text: "customer spaceship"}, "text not ASCII": {Text: "größe"}, "tags": {Tags: []string{"tier=core", "nobody"}},
		"ability": {Ability: "nothing"}, "version": {Version: ">=9.0.0 <10.0.0"},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if found, err := snapshot.Find(q); err != nil || len(found) > 0 {
					b.Fatal(len(found), err)
				}
			}
		})
	}
}
