package router_test

import (
	"fmt"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/router"
)

func ExampleIndex_Search() {
	x := router.New(nil)
	x.Put("agent_weather", &a2a.AgentCard{Name: "Weather", Description: "Forecasts for any place", Skills: []a2a.AgentSkill{
		{ID: "forecast", Name: "Forecast", Description: "Rain, wind and sun of the coming days", Examples: []string{"will it snow in Oslo"}},
	}})
	x.Put("agent_trains", &a2a.AgentCard{Name: "Trains", Description: "Timetables and delays of trains"})
	for _, text := range []string{"will it snow tomorrow?", "is my train delayed?", "who wrote Hamlet?"} {
		hits := x.Search(text, &router.SearchOptions{Limit: 1})
		if len(hits) == 0 || hits[0].Score < router.Fits {
			fmt.Println("none")
			continue
		}
		fmt.Println(hits[0].ID, hits[0].Skills)
	}
	// Output:
	// agent_weather [forecast]
	// agent_trains []
	// none
}
