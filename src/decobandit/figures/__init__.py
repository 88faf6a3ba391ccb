"""Figures by matplotlib and plotly: returned; only `show_figure` opens a window.

Imports `designs` and what is below it.
"""

from typing import TYPE_CHECKING

from ..support.lazy import lazy_names

if TYPE_CHECKING:
    from .charts import as_text as as_text
    from .charts import draw_chart as draw_chart
    from .charts import figure_page as figure_page
    from .charts import new_figure as new_figure
    from .charts import save_figure as save_figure
    from .charts import show_figure as show_figure
    from .episodes import LONGEST_NAME as LONGEST_NAME
    from .episodes import episode_chart as episode_chart
    from .episodes import episode_figure as episode_figure
    from .episodes import episode_page as episode_page
    from .episodes import episodes_figure as episodes_figure
    from .episodes import short_name as short_name
    from .palette import CONGESTION_COLOUR as CONGESTION_COLOUR
    from .palette import DARK_VARIANTS as DARK_VARIANTS
    from .palette import INFORMATION_COLOUR as INFORMATION_COLOUR
    from .palette import NEUTRAL_COLOUR as NEUTRAL_COLOUR
    from .palette import PRICE_COLOUR as PRICE_COLOUR
    from .palette import Style as Style
    from .palette import arm_style as arm_style
    from .palette import policy_style as policy_style
    from .palette import policy_styles as policy_styles
    from .result_figures import batch_figure as batch_figure
    from .result_figures import characteristics_figure as characteristics_figure
    from .result_figures import gap_figure as gap_figure
    from .result_figures import market_figure as market_figure
    from .result_figures import market_page as market_page
    from .result_figures import regret_figure as regret_figure
    from .result_figures import solution_figure as solution_figure
    from .result_figures import study_figure as study_figure
    from .svg_figures import marked_policy as marked_policy

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
