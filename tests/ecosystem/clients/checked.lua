-- For wrk: GETs and POSTs in turn, pipelined where asked to; every answer is checked, and what is wrong is counted.
local threads = {}
local number = 0

function setup(thread)
    table.insert(threads, thread)
end

function init(args)
    wrong = 0
    right = 0
    depth = tonumber(args[1]) or 1
    sent = string.rep("0123456789", 500)
end

function request()
    local all = {}
    for place = 1, depth do
        number = number + 1
        if number % 2 == 0 then
            all[place] = wrk.format("POST", "/echo", nil, sent)
        else
            all[place] = wrk.format("GET", "/number/" .. "1234567")
        end
    end
    return table.concat(all)
end

function response(status, headers, body)
    if status == 200 and (body == sent or body == "1234567") then
        right = right + 1
    else
        wrong = wrong + 1
    end
end

function done(summary, latency, requests)
    local all_right, all_wrong = 0, 0
    for _, thread in ipairs(threads) do
        all_right = all_right + thread:get("right")
        all_wrong = all_wrong + thread:get("wrong")
    end
    local errors = summary.errors
    print("right " .. all_right)
    print("wrong " .. all_wrong)
    print("errors " .. errors.connect + errors.read + errors.write + errors.status + errors.timeout)
end
