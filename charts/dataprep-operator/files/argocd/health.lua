-- The health of a DataPrepJob or DataPrepCronJob for Argo CD. docs/gitops.md says how to install this script.
local health = {status = "Progressing", message = "Waiting for the operator."}
if obj.status == nil or obj.status.observedGeneration ~= obj.metadata.generation then
  return health
end
for _, condition in ipairs(obj.status.conditions or {}) do
  if condition.type == "Stalled" and condition.status == "True" then
    return {status = "Degraded", message = condition.message}
  elseif condition.type == "Ready" then
    health.message = condition.message
    if condition.status == "True" then
      health.status = "Healthy"
    end
  elseif condition.type == "Suspended" and condition.status == "True" then
    health.status = "Suspended"
    health.message = condition.message
  end
end
return health
