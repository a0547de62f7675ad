package agentcard_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/internal/document/documenttest"
)

var both = []string{"application/json", "text/plain"}

// documents are those of testdata, with their results: a card without its extension, and a Spec.
var documents = []struct {
	file     string
	card     a2a.AgentCard
	spec     agentcard.Spec
	warnings []string
}{
	{
		file: "product-search.yaml",
		card: a2a.AgentCard{
			Name: "product-search-agent", Version: "1.2.0", Description: "Handles product search and comparison queries using the product catalog",
			Skills: []a2a.AgentSkill{
				{
					ID: "product.search", Name: "product.search", Description: "Search the product catalog by keyword, category, price range, and attributes",
					Tags: []string{}, InputModes: both, OutputModes: both,
				},
				{
					ID: "product.compare", Name: "product.compare", Description: "Compare two or more products across attributes (price, features, reviews)",
					Tags: []string{}, InputModes: both, OutputModes: both,
				},
			},
		},
		spec: agentcard.Spec{
			Abilities: map[string]agentcard.Ability{
				"product.search": {
					InputSchema: json.RawMessage(`{"properties":{"category":{"type":"string"},"filters":{"type":"object"},"price_max":{"type":"number"},` +
						`"price_min":{"type":"number"},"query":{"type":"string"}},"required":["query"],"type":"object"}`),
					OutputSchema: json.RawMessage(`{"properties":{"results":{"items":{"$ref":"#/defs/ProductSummary"},"type":"array"},` +
						`"total_count":{"type":"integer"}},"type":"object"}`),
				},
				"product.compare": {
					InputSchema: json.RawMessage(`{"properties":{"product_ids":{"items":{"type":"string"},"minItems":2,"type":"array"}},` +
						`"required":["product_ids"],"type":"object"}`),
					OutputSchema: json.RawMessage(`{"properties":{"comparison_table":{"type":"object"}},"type":"object"}`),
				},
			},
			Labels: map[string]string{"tier": "core", "domain": "catalog"}, OwnerTeam: "shopping-experience",
			Patterns: []string{"coordinator_managed", "market_bidding"},
			Limits:   agentcard.Limits{MaxConcurrentTasks: 10, TaskTimeout: time.Minute, LLMTimeout: 30 * time.Second, MaxRetries: new(3)},
			Extra: map[string]any{
				"nats_subject": "tasks.product", "consumer_group": "product-search-agent-group",
				"evaluators": []any{"no_pii", "relevance", "factuality"},
				"tools":      []any{"product-catalog.search", "product-catalog.details", "product-catalog.compare"},
				"reflection_config": map[string]any{
					"enabled": true, "max_rounds": 2.0, "criteria": []any{"relevance", "completeness"}, "model": "gpt-4o-mini",
				},
			},
		},
		warnings: []string{`product-search.yaml: capabilities[0].output_schema: "#/defs/ProductSummary" is not in the schema: anything is allowed there`},
	},
	{
		file: "coordinator.yaml",
		card: a2a.AgentCard{
			Name: "coordinator-agent", Version: "1.0.0", Description: "Central coordinator that plans, delegates, and synthesizes multi-agent workflows",
			Skills: []a2a.AgentSkill{{
				ID: "session.orchestrate", Name: "session.orchestrate",
				Description: "Receive user requests, decompose into sub-tasks, delegate to specialists, and synthesize responses",
				Tags:        []string{}, InputModes: both, OutputModes: both,
			}},
		},
		spec: agentcard.Spec{
			Abilities: map[string]agentcard.Ability{"session.orchestrate": {
				InputSchema: json.RawMessage(`{"properties":{"session_context":{"type":"object"},"user_message":{"type":"string"}},` +
					`"required":["user_message"],"type":"object"}`),
				OutputSchema: json.RawMessage(`{"properties":{"delegated_tasks":{"type":"array"},"response":{"type":"string"}},"type":"object"}`),
			}},
			Labels: map[string]string{"tier": "platform", "critical": "true"}, OwnerTeam: "platform", Patterns: []string{"coordinator_managed"},
			Limits: agentcard.Limits{MaxConcurrentTasks: 20, TaskTimeout: 2 * time.Minute, LLMTimeout: 30 * time.Second, MaxRetries: new(2)},
			Extra: map[string]any{
				"nats_subject": "tasks.coordinator", "consumer_group": "coordinator-agent-group",
				"evaluators": []any{"no_pii", "coherence", "brand_voice"}, "tools": []any{"all"},
			},
		},
	},
	{
		file: "echo-0.2.json",
		card: a2a.AgentCard{
			Name: "agent_echo", Version: "1.0.0", Description: "A simple echo agent that repeats back messages for testing purposes",
			SupportedInterfaces: []*a2a.AgentInterface{
				{URL: "grpc.example.com:443", ProtocolBinding: "GRPC", ProtocolVersion: "0.2"},
				{URL: "https://echo.example.com/a2a", ProtocolBinding: "JSONRPC", ProtocolVersion: "0.2"},
			},
			Capabilities: a2a.AgentCapabilities{Streaming: true, ExtendedAgentCard: true},
			IconURL:      "https://echo.example.com/icon.png",
			Skills: []a2a.AgentSkill{{
				ID: "echo", Name: "Echo Messages", Description: "Echoes back any text message with an 'Echo: ' prefix",
				Tags:       []string{"testing", "echo", "debug"},
				Examples:   []string{"Echo this message", "Repeat what I say", "Test echo functionality"},
				InputModes: []string{"text/plain"}, OutputModes: []string{"text/plain"},
			}},
		},
	},
	{
		file: "secure-0.3.yaml",
		card: a2a.AgentCard{
			Name: "billing", Version: "2.1.0", Description: "Knows invoices",
			SupportedInterfaces: []*a2a.AgentInterface{{URL: "https://billing.example.com/a2a", ProtocolBinding: "JSONRPC", ProtocolVersion: "0.3"}},
			DefaultInputModes:   []string{"text/plain"}, DefaultOutputModes: []string{"application/json"},
			SecurityRequirements: a2a.SecurityRequirementsOptions{{"oauth": {"read"}}, {"key": {}, "bearer": {}}},
			SecuritySchemes: a2a.NamedSecuritySchemes{
				"bearer": a2a.HTTPAuthSecurityScheme{Scheme: "bearer", BearerFormat: "JWT"},
				"key":    a2a.APIKeySecurityScheme{Location: "header", Name: "X-Key"},
				"oidc":   a2a.OpenIDConnectSecurityScheme{OpenIDConnectURL: "https://id.example.com"},
				"tls":    a2a.MutualTLSSecurityScheme{},
				"oauth": a2a.OAuth2SecurityScheme{
					Flows: a2a.ClientCredentialsOAuthFlow{TokenURL: "https://t.example.com", Scopes: map[string]string{"read": "Read"}},
				},
			},
			Skills: []a2a.AgentSkill{{
				ID: "invoice", Name: "Invoice", Description: "Finds an invoice", Tags: []string{},
				SecurityRequirements: a2a.SecurityRequirementsOptions{{"bearer": {}}},
			}},
		},
		warnings: []string{
			"secure-0.3.yaml: securitySchemes.dpop is left out: it is none of the kinds that a card can hold",
			"secure-0.3.yaml: securitySchemes.oauth: of its 2 flows only clientCredentials is kept",
		},
	},
	{
		file: "card-1.0.json",
		card: a2a.AgentCard{
			Name: "weather", Version: "1.4.0", Description: "Tells the weather",
			SupportedInterfaces: []*a2a.AgentInterface{
				{URL: "https://weather.example.com/a2a", ProtocolBinding: "JSONRPC", ProtocolVersion: "1.0", Tenant: "acme"},
			},
			Provider: &a2a.AgentProvider{Org: "Acme", URL: "https://acme.example.com"},
			Capabilities: a2a.AgentCapabilities{
				Streaming: true, Extensions: []a2a.AgentExtension{{URI: "https://example.com/other", Params: map[string]any{"any": []any{"thing"}}}},
			},
			DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
			SecurityRequirements: a2a.SecurityRequirementsOptions{{"oauth": {"read_all"}}, {"key": {}}},
			SecuritySchemes: a2a.NamedSecuritySchemes{
				"key": a2a.APIKeySecurityScheme{Location: "query", Name: "k"},
				"oauth": a2a.OAuth2SecurityScheme{Flows: a2a.AuthorizationCodeOAuthFlow{
					AuthorizationURL: "https://a.example.com", TokenURL: "https://t.example.com", Scopes: map[string]string{"read_all": "Read"},
				}},
			},
			Signatures: []a2a.AgentCardSignature{{Protected: "e30", Signature: "c2ln", Header: map[string]any{"kid": "1"}}},
			Skills:     []a2a.AgentSkill{{ID: "forecast", Name: "Forecast", Description: "Tells it", Tags: []string{"sky"}}},
		},
		spec: agentcard.Spec{
			OwnerTeam: "sky", Limits: agentcard.Limits{MaxRetries: new(0)}, Extra: map[string]any{"sla": "gold"},
			Abilities: map[string]agentcard.Ability{"forecast": {DispatchKey: "weather.forecast"}},
		},
		warnings: []string{"card-1.0.json: securitySchemes.new is left out: it is none of the kinds that a card can hold"},
	},
	{
		file: "comfort.yaml",
		card: a2a.AgentCard{
			Name: "shop", Version: "3.0.0",
			Skills: []a2a.AgentSkill{
				{ID: "find", Name: "Find a Product", Description: "Finds products"},
				{ID: "cancel_an_order", Name: "Cancel an Order", Description: "Cancels an order"},
			},
		},
		spec: agentcard.Spec{
			Abilities: map[string]agentcard.Ability{
				"find": {
					InputSchema:  json.RawMessage(`{"properties":{"query":{"type":"string"}},"required":["query"],"type":"object"}`),
					OutputSchema: json.RawMessage(`{"$ref":"https://example.com/products.json"}`),
					Confidence:   new(0.8), DispatchKey: "product.search",
				},
				"cancel_an_order": {OutputSchema: json.RawMessage(`true`), Confidence: new(1.0), Confirm: true, Once: true},
			},
			Tags: []string{"retail", "fast"}, Labels: map[string]string{"tier": "core", "critical": "true"},
			OwnerTeam: "shopping", TenantScope: "acme", Patterns: []string{"blackboard"},
			Limits: agentcard.Limits{MaxConcurrentTasks: 4, TaskTimeout: 5 * time.Second},
			Extra:  map[string]any{"tools": []any{"cart.add"}},
		},
		warnings: []string{`comfort.yaml: skills[0].output_schema: "https://example.com/products.json" is not in the schema: anything is allowed there`},
	},
	{
		file: "registry.json",
		card: a2a.AgentCard{
			Name: "unique-agent-identifier-123", Version: "1.2.1", Description: "Processes and analyzes datasets.",
			Skills: []a2a.AgentSkill{
				{ID: "csv_processing", Name: "csv_processing", Description: "Process CSV files", Tags: []string{}},
				{ID: "image_resizing", Name: "image_resizing", Description: "Resize JPG and PNG images", Tags: []string{}},
			},
		},
		spec: agentcard.Spec{
			Tags: []string{"data-processing", "images", "version-1.2"}, OwnerTeam: "DataTeam",
			Extra: map[string]any{
				"name": "DataProcessorAgent", "agent_profile_uri": "http://agent.example.com/.well-known/rtfs-agent-profile.json",
				"metadata": map[string]any{"owner": "DataTeam", "last_updated_timestamp": "2023-10-27T10:30:00Z"},
				"communication": map[string]any{
					"protocols": []any{"http", "grpc"},
					"endpoints": []any{
						map[string]any{"protocol": "http", "uri": "http://agent-host:8080/rtfs", "details": map[string]any{"methods": []any{"POST"}}},
						map[string]any{"protocol": "grpc", "uri": "grpc://agent-host:50051"},
					},
				},
				"schema_refs": map[string]any{
					"csv_processing": map[string]any{"input_schema_ref": "schemas/csv_input.json", "output_schema_ref": "schemas/csv_output.json"},
					"image_resizing": map[string]any{"input_schema_ref": "schemas/image_input.json", "output_schema_ref": "schemas/image_output.json"},
				},
			},
		},
		warnings: []string{
			`registry.json: capabilities[0].input_schema_ref: "schemas/csv_input.json" is not read: anything is allowed there`,
			`registry.json: capabilities[0].output_schema_ref: "schemas/csv_output.json" is not read: anything is allowed there`,
			`registry.json: capabilities[1].input_schema_ref: "schemas/image_input.json" is not read: anything is allowed there`,
			`registry.json: capabilities[1].output_schema_ref: "schemas/image_output.json" is not read: anything is allowed there`,
		},
	},
	{
		file: "well-known.json",
		card: a2a.AgentCard{
			Name: "ResearchAgent", Version: "1.0",
			Description: "On-demand research agent. Searches the web, fetches pages, and synthesises answers using an LLM.",
			Skills: []a2a.AgentSkill{{
				ID: "research", Name: "Research", Description: "Research a topic using web search and page fetching, then synthesise a concise answer.",
			}},
		},
	},
}

func TestRead(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.*"))
	if err != nil || len(files) != len(documents) {
		t.Errorf("testdata has %d documents, %v; %d are tested", len(files), err, len(documents))
	}
	for _, tt := range documents {
		t.Run(tt.file, func(t *testing.T) {
			b, err := os.ReadFile(filepath.Join("testdata", tt.file))
			if err != nil {
				t.Fatal(err)
			}
			got, warnings, err := agentcard.Read(tt.file, b)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&tt.card, agentcard.Attach(got, nil)); diff != "" {
				t.Errorf("card (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(&tt.spec, agentcard.SpecOf(got)); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.warnings, warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			// The same after encoding and decoding, as by a transport.
			b, err = json.Marshal(got)
			if err != nil {
				t.Fatal(err)
			}
			var there a2a.AgentCard
			if err := json.Unmarshal(b, &there); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(got.Capabilities, there.Capabilities); diff != "" {
				t.Errorf("capabilities after a transport (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(&tt.spec, agentcard.SpecOf(&there)); diff != "" {
				t.Errorf("spec after a transport (-want +got):\n%s", diff)
			}
		})
	}
}

// TestReadSpecDefaults checks the defaults of an AgentSpec, and that its status, which the registry determines, is ignored.
func TestReadSpecDefaults(t *testing.T) {
	c, warnings, err := agentcard.ReadSpec("f", []byte(minimalSpec+"status: ready\nregistered_at: 2026-01-01T00:00:00Z\nlast_heartbeat: null\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := &agentcard.Spec{
		Abilities: map[string]agentcard.Ability{"x": {InputSchema: json.RawMessage(`{}`), OutputSchema: json.RawMessage(`{}`)}},
		OwnerTeam: "o", Patterns: []string{"coordinator_managed"},
		Limits: agentcard.Limits{MaxConcurrentTasks: 10, TaskTimeout: time.Minute, LLMTimeout: 30 * time.Second, MaxRetries: new(3)},
	}
	if diff := cmp.Diff(want, agentcard.SpecOf(c)); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	wantWarnings := []string{
		"f: status is left out: the registry finds it out by itself", "f: registered_at is left out: the registry finds it out by itself",
	}
	if diff := cmp.Diff(wantWarnings, warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

const (
	specHead    = "agent_type: a\nversion: 1.2.3\ndescription: d\nowner_team: o\n"
	minimalSpec = specHead + "capabilities: [{name: x, description: d, input_schema: {}, output_schema: {}}]\n"
)

func TestReadRefuses(t *testing.T) {
	ability := func(s string) string { return specHead + "capabilities: [{" + s + "}]" }
	long := strings.Repeat("x", 300)
	tests := []struct{ file, want string }{
		{"", `f: name is missing; add a line such as "name: agent_weather"`},
		{"nmae: w", `f: unknown field "nmae"; did you mean "name"?`},
		{"- name: w", `f: is not the YAML or JSON of a card: it is a list, not fields such as "name: ..."`},
		{"name: w\nname: v", `f: is not the YAML or JSON of a card: line 2: key "name" already set in map`},
		{"name: w\nfavourite: x", `f: unknown field "favourite"; remove it, or use one of supportedInterfaces, `},
		{"name: w\nskills: [{id: x, input_modes: [a], inputModes: [b]}]", `f: skills[0].inputModes is there twice, as "inputModes" and "input_modes": keep one`},
		{"name: w\ncapabilities: {streamin: true}", `f: unknown field "capabilities.streamin"; did you mean "capabilities.streaming"?`},
		{"name: w\ncapabilities: {streaming: 1}", `f: capabilities.streaming must be true or false, not a number`},
		{"name: w\ncapabilities: [x]", `f: capabilities must have fields such as "extensions: ..." and "pushNotifications: ...", not be a list`},
		{"name: w\nprovider: {organisation: x}", `f: unknown field "provider.organisation"; did you mean "provider.organization"?`},
		{"name: w\nskills: [{id: x, inputSchema: {}}]", `f: unknown field "skills[0].inputSchema"; did you mean "skills[0].input_schema"?`},
		{"name: w\nskills: [{id: x, input_schema: {type: text}}]", `f: skills[0].input_schema: the schema is not valid: /type has none`},
		{"name: w\nskills: [{id: x, input_schema: [a]}]", `f: skills[0].input_schema: a schema is a group of fields, not an array`},
		{"name: w\nskills: [{id: x, output_schema: {title: " + strings.Repeat("x", 16<<10) + "}}]", `f: skills[0].output_schema: the schema is 16396 bytes long`},
		{"name: w\nskills: [{id: x, confidence_hint: 1.5}]", `f: skills[0].confidence_hint is 1.5, it must be from 0 to 1`},
		{"name: w\nskills: [{id: x, confidence_hint: .nan}]", `f: `},
		{"name: w\nskills: [{id: x, dispatch_key: \"a\\nb\"}]", `f: skills[0].dispatch_key must be one line of printable characters`},
		{"name: w\nspec: {owner_tem: x}", `f: unknown field "spec.owner_tem"; did you mean "spec.owner_team"?`},
		{"name: w\nspec: {owner_team: " + long + "}", `f: spec.owner_team is 300 bytes long, at most 256 are allowed`},
		{"name: w\nspec: {abilities: {x: {}}}", `f: spec.abilities.x: there is no skill with this id`},
		{"name: w\nspec: {task_timeout_ms: 999}", `f: spec.task_timeout_ms is 999, it must be at least 1000`},
		{"name: w\nspec: {tags: [1]}", `f: spec.tags[0] must be a text, not a number`},
		{"name: w\nspec: {tags: x}", `f: spec.tags must be a list or a group of fields, not a text`},
		{"name: w\nspec: {tags: [" + strings.Repeat("x,", 65) + "]}", `f: spec.tags: at most 64 are allowed, not 65`},
		{"name: w\nspec: {labels: {" + manyLabels(65) + "}}", `f: spec.labels: at most 64 are allowed, not 65`},
		{"name: w\nspec: {tags: {" + manyLabels(60) + "}, labels: {a: b, c: d, e: f, g: h, i: j}}", `f: spec.labels: at most 64 are allowed, not 65`},
		{"name: w\ncapabilities: {extensions: [{uri: " + agentcard.ExtensionURI + ", params: {max_retries: -1}}]}", `f: capabilities.extensions[0].params.max_retries is -1, it must be at least 0`},
		{"name: w\nmetadata: " + strings.Repeat("[", 70) + strings.Repeat("]", 70), `f: is nested too deep: at most 64 levels are allowed`},

		{minimalSpec + "nats_subjet: x", `f: unknown field "nats_subjet"; did you mean "nats_subject"?`},
		{strings.Replace(minimalSpec, "a\n", "''\n", 1), `f: agent_type is missing; add a line such as "agent_type: product-search-agent"`},
		{strings.Replace(minimalSpec, "1.2.3", "v1.2", 1), `f: version "v1.2" must be three numbers, such as "1.2.0"`},
		{strings.Replace(minimalSpec, "1.2.3", "1.2", 1), `f: version "1.2" must be three numbers`},
		{strings.Replace(minimalSpec, "version", "#", 1), `f: version is missing; add a line such as "version: 1.2.0"`},
		{strings.Replace(minimalSpec, "description", "#", 1), `f: description is missing; `},
		{strings.Replace(minimalSpec, "owner_team", "#", 1), `f: owner_team is missing; `},
		{specHead, `f: capabilities is missing: at least one with name, description, input_schema and output_schema`},
		{specHead + "capabilities: []", `f: capabilities is missing: `},
		{specHead + "capabilities: {}", `f: capabilities must be a list, not a group of fields`},
		{ability("description: d, input_schema: {}, output_schema: {}"), `f: capabilities[0].name is missing; `},
		{ability("name: x, input_schema: {}, output_schema: {}"), `f: capabilities[0].description is missing: `},
		{ability("name: x, description: d, output_schema: {}"), `f: capabilities[0].input_schema is missing; `},
		{ability("name: x, description: d, input_schema: {}"), `f: capabilities[0].output_schema is missing; `},
		{ability("name: x, description: d, input_schema: true, output_schema: {}"), `f: capabilities[0].input_schema must be a group of fields, not true or false`},
		{ability("name: x, description: d, input_schema: {}, output_schema: {}, confidence_hint: -0.1"), `f: capabilities[0].confidence_hint is -0.1, it must be from 0 to 1`},
		{ability("name: x, description: d, input_schema: {}, output_schema: {}}, {name: x, description: d, input_schema: {}, output_schema: {}"), `f: capabilities[1].name "x" is there twice`},
		{minimalSpec + "supported_patterns: [swarm]", `f: supported_patterns[0] is "swarm", it must be one of coordinator_managed, swarm_peer, blackboard, market_bidding`},
		{minimalSpec + "max_concurrent_tasks: 0", `f: max_concurrent_tasks is 0, it must be at least 1`},
		{minimalSpec + "max_concurrent_tasks: 1.5", `f: max_concurrent_tasks must be a whole number, not a number`},
		{minimalSpec + "max_concurrent_tasks: 1e300", `f: max_concurrent_tasks `},
		{minimalSpec + "task_timeout_ms: 999", `f: task_timeout_ms is 999, it must be at least 1000`},
		{minimalSpec + "llm_timeout_ms: 1", `f: llm_timeout_ms is 1, it must be at least 1000`},
		{minimalSpec + "llm_timeout_ms: 99999999999", `f: llm_timeout_ms is 99999999999, it must be at most 31536000000`},
		{minimalSpec + "max_retries: -1", `f: max_retries is -1, it must be at least 0`},
		{minimalSpec + "reflection_config: {max_rounds: 6}", `f: reflection_config.max_rounds is 6, it must be at most 5`},
		{minimalSpec + "reflection_config: {rounds: 6}", `f: unknown field "reflection_config.rounds"; `},
		{minimalSpec + "tags: {a: [b]}", `f: tags.a must be a text, not a list`},
		{minimalSpec + "evaluators: no_pii", `f: evaluators must be a list, not a text`},
		{minimalSpec + "abilities: {x: {}}", `f: unknown field "abilities"; an AgentSpec says it in capabilities`},
		{"nats_subject: x\nagent_tpe: a", `f: unknown field "agent_tpe"; did you mean "agent_type"?`},

		{"agent_id: ''", `f: agent_id is missing; `},
		{"agent_id: a\ncapabilities: [{description: x}]", `f: capabilities[0].capability_id is missing; `},
		{"agent_id: a\ncapabilities: [{capability_id: x}, {capability_id: x}]", `f: capabilities[1].capability_id "x" is there twice`},
		{"agent_id: a\ncapabilities: [{capability_id: x, input_schema_ref: 1}]", `f: capabilities[0].input_schema_ref must be a text or a schema, not a number`},
		{"agent_id: a\ncapabilities: [{capability_id: x, input_schema_ref: {type: 1}}]", `f: capabilities[0].input_schema: the schema is not valid: `},
		{"agent_id: a\nendpoint_url: x", `f: unknown field "endpoint_url"; `},
		{"agentName: ''", `f: agentName is missing; `},
		{"agentName: a\nskils: []", `f: unknown field "skils"; did you mean "skills"?`},
	}
	for _, tt := range tests {
		_, _, err := agentcard.Read("f", []byte(tt.file))
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) || len(err.Error()) > len("f: ")+300 {
			t.Errorf("Read(%.90q) = %v, want %s", tt.file, err, tt.want)
		}
	}
}

func manyLabels(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "l%d: v, ", i)
	}
	return b.String()
}

func TestReadSpecRefusesCards(t *testing.T) {
	for file, want := range map[string]string{
		"name: w":                            "f: is an A2A card, not an AgentSpec with agent_type and capabilities: read it with --card",
		"agentName: w":                       "f: is an entry of a list of well-known agents, not an AgentSpec",
		"capabilities: [{capability_id: x}]": "f: is an agent_card of a registry, not an AgentSpec",
		"{}":                                 "f: is an A2A card, not an AgentSpec",
	} {
		if _, _, err := agentcard.ReadSpec("f", []byte(file)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("ReadSpec(%q) = %v, want %s", file, err, want)
		}
	}
}

// TestReadWarns checks that unreadable parts of external cards are left out with a warning.
func TestReadWarns(t *testing.T) {
	tests := []struct{ file, want string }{
		{"name: w\nsecuritySchemes: {x: text}", "f: securitySchemes.x is left out: it must be a group of fields, not a text"},
		{"name: w\nsecuritySchemes: {x: {oauth2SecurityScheme: {flows: {magic: {}}}}}", "f: securitySchemes.x is left out: it is none of the kinds that a card can hold"},
		{"name: w\nsecurity: [x]", "f: security[0] is left out: it must name schemes and their scopes"},
		{"name: w\nskills: [{id: x, securityRequirements: [{schemes: {y: z}}]}]", "f: skills[0].securityRequirements[0] is left out: "},
		{"name: w\nauthentication: {schemes: [bearer]}", "f: authentication is left out: cards now say it by securitySchemes"},
	}
	for _, tt := range tests {
		c, warnings, err := agentcard.Read("f", []byte(tt.file))
		if err != nil || len(warnings) != 1 || !strings.HasPrefix(warnings[0], tt.want) {
			t.Errorf("Read(%q) = %q, %v, want %s", tt.file, warnings, err, tt.want)
			continue
		}
		if c.SecuritySchemes != nil || c.SecurityRequirements != nil {
			t.Errorf("Read(%q) keeps %v, %v", tt.file, c.SecuritySchemes, c.SecurityRequirements)
		}
	}
}

func TestReadIsBounded(t *testing.T) {
	file := "name: w\nsecuritySchemes:\n"
	for i := range 30 {
		file += fmt.Sprintf("  x%d: text\n", i)
	}
	_, warnings, err := agentcard.Read("f", []byte(file))
	if err != nil || len(warnings) != 21 || warnings[20] != "f: and 10 more warnings" {
		t.Errorf("%d warnings, %v, want 20 and one of 10 more", len(warnings), err)
	}
	if _, _, err := agentcard.Read("f", make([]byte, agentcard.MaxDocument+1)); err == nil || err.Error() != "f: is 262145 bytes long, at most 262144 are allowed" {
		t.Errorf("Read of a long document = %v", err)
	}
	laughs := "name: w\na0: &a0 [x, x, x, x, x, x, x, x, x]\n"
	for i := range 12 {
		laughs += fmt.Sprintf("a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 8), i)
	}
	if _, _, err := agentcard.Read("f", []byte(laughs)); err == nil || !strings.Contains(err.Error(), "line 5: with *a2 the aliases stand for over 65536 bytes") {
		t.Errorf("Read of what expands without end = %v", err)
	}
}

// TestReadHybridCard checks a card for readers of both versions, which has interfaces and security twice; the newer fields count.
func TestReadHybridCard(t *testing.T) {
	c, warnings, err := agentcard.Read("f", []byte(`{"name":"w","url":"https://old.example.com","protocolVersion":"0.3.0",
		"supportedInterfaces":[{"url":"https://new.example.com","protocolBinding":"GRPC","protocolVersion":"1.0"}],
		"securitySchemes":{"k":{"type":"apiKey","in":"query","name":"old","apiKeySecurityScheme":{"location":"header","name":"new"}}},
		"security":[{"old":[]}],"securityRequirements":[{"schemes":{"k":["s"]}}]}`))
	if err != nil || warnings != nil {
		t.Fatal(warnings, err)
	}
	want := &a2a.AgentCard{
		Name:                 "w",
		SupportedInterfaces:  []*a2a.AgentInterface{{URL: "https://new.example.com", ProtocolBinding: "GRPC", ProtocolVersion: "1.0"}},
		SecuritySchemes:      a2a.NamedSecuritySchemes{"k": a2a.APIKeySecurityScheme{Location: "header", Name: "new"}},
		SecurityRequirements: a2a.SecurityRequirementsOptions{{"k": {"s"}}},
	}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("card (-want +got):\n%s", diff)
	}
}

func FuzzRead(f *testing.F) {
	for _, d := range documents {
		b, err := os.ReadFile(filepath.Join("testdata", d.file))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(b))
	}
	for _, s := range []string{"name: w", minimalSpec, "a: &a [*a]", "name: 1\nskills: {}\n", "agent_id: a\ncapabilities: [{capability_id: x}]", "agentName: w"} {
		f.Add(s)
	}
	for _, s := range documenttest.Seeds() {
		f.Add(minimalSpec + s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, warnings, err := agentcard.Read("f", []byte(s))
		texts := warnings
		if err != nil {
			texts = append(texts, err.Error())
		}
		for _, text := range texts {
			if len(text) > 310 || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("Read(%q) says %q, want one short line", s, text)
			}
		}
		if err != nil {
			return
		}
		if c.Name == "" {
			t.Errorf("Read(%q) returned a card without a name", s)
		}
		b, err := json.Marshal(c)
		if err != nil {
			t.Fatalf("Read(%q) returned what cannot be encoded: %v", s, err)
		}
		var there a2a.AgentCard
		if err := json.Unmarshal(b, &there); err != nil {
			t.Fatalf("Read(%q) returned what cannot be decoded: %v", s, err)
		}
		if diff := cmp.Diff(agentcard.SpecOf(c), agentcard.SpecOf(&there)); diff != "" {
			t.Errorf("Read(%q): spec after a transport (-want +got):\n%s", s, diff)
		}
	})
}
